"""The words both planes speak: principals, access, items, bundles. Imports none of the other packages."""
