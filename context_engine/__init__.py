"""The composition root: settings to adapters, embedded mode, command line. The only package that imports all others."""
