// The identity provider of tests: each start has keys of its own. It takes any password. Its arguments are a port, 0 for any, and for
// how many seconds an ID token is valid. It prints its URL when it answers, and ends with its standard input. A request for
// /logout-tokens-to?URL says where logout tokens are sent from then on.
import crypto from 'node:crypto';
import http from 'node:http';
import { Provider } from 'oidc-provider';

const [port, seconds] = process.argv.slice(2).map(Number);
const people = {
  ann: { email: 'ann@example.com', email_verified: true, groups: ['ops', 'staff'] },
  bob: { email: 'bob@example.com', email_verified: true, groups: ['viewers'] },
  eve: { email: 'eve@example.com', email_verified: true, groups: ['staff', '<script>alert(1)</script>'] },
  mallory: { email: 'ann@example.com', email_verified: false, groups: ['ops'] },
  nobody: {},
};
let logoutTokensTo = '';
const key = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
const server = http.createServer();
server.listen(port, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'dashboard', client_secret: 'a secret that only tests have',
      redirect_uris: ['http://127.0.0.1/ui/oidc/callback'], post_logout_redirect_uris: ['http://127.0.0.1/ui/login'],
      backchannel_logout_uri: 'http://127.0.0.1/ui/oidc/backchannel-logout', backchannel_logout_session_required: true,
    }],
    features: { backchannelLogout: { enabled: true } },
    // Nodes of tests are at addresses that the provider does not send requests to by itself, and may be slow.
    fetch: (url, { dispatcher, signal, ...options }) => (logoutTokensTo ? fetch(logoutTokensTo, options) : new Response()),
    claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
    cookies: { keys: [crypto.randomBytes(32).toString('hex')] },
    findAccount: (ctx, id) => people[id] && { accountId: id, claims: () => ({ sub: id, ...people[id] }) },
    jwks: { keys: [{ ...key, kid: crypto.randomUUID(), use: 'sig', alg: 'RS256' }] },
    ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: seconds, Interaction: 600, Session: 600 },
  });
  // Nodes of tests have other ports each time.
  const allowed = (path) => (uri) => {
    const at = new URL(uri);
    return at.hostname === '127.0.0.1' && at.pathname === path;
  };
  provider.Client.prototype.redirectUriAllowed = allowed('/ui/oidc/callback');
  provider.Client.prototype.postLogoutRedirectUriAllowed = allowed('/ui/login');
  provider.on('backchannel.error', (ctx, err) => console.error(err));
  const answer = provider.callback();
  server.on('request', (request, response) => {
    const [path, to] = request.url.split('?');
    if (path !== '/logout-tokens-to') return answer(request, response);
    logoutTokensTo = to;
    return response.end();
  });
  console.log(issuer);
});
process.stdin.resume().on('end', () => process.exit(0));
