// A real OpenID provider (npm oidc-provider) on loopback, for tests of what verifies its tokens.
//
// Environment: PORT (0: a free one), SKEW (seconds by which its clock is wrong), RESOURCES (JSON: the audiences that it
// gives tokens for). Prints its issuer as a line of JSON once it listens, and ends with its standard input. Its keys are
// new at each start.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';

const skew = Number(process.env.SKEW ?? 0) * 1000;
const now = Date.now.bind(Date);
Date.now = () => now() + skew;

const { default: Provider } = await import('oidc-provider');

const resources = JSON.parse(process.env.RESOURCES);
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const redirect_uris = ['http://127.0.0.1/callback'];

const server = createServer();
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
    clients: [
      { client_id: 'agent', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris },
      {
        client_id: 'machine',
        client_secret: 'machine-secret',
        grant_types: ['client_credentials'],
        response_types: [],
        redirect_uris: [],
      },
    ],
    scopes: ['openid', 'context.read', 'context.admin'],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com` }) }),
    // The account in the directory, as an administrator would have it copied into tokens.
    extraTokenClaims: (_, token) => (token.accountId ? { directory_id: process.env.DIRECTORY_ID, name: 'Iris' } : {}),
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => {
          if (!resources.includes(resource)) throw new Error(`no such resource: ${resource}`);
          return { scope: 'context.read context.admin', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300 };
        },
      },
    },
    ttl: { ClientCredentials: 300, Interaction: 600, Session: 600, Grant: 600, IdToken: 300 },
    cookies: { keys: ['a key that signs cookies of a test'] },
  });
  server.on('request', provider.callback());
  console.log(JSON.stringify({ issuer }));
});

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
