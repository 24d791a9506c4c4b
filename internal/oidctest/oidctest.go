// Package oidctest starts a real identity provider for tests: oidc-provider on Node.js, which is certified for OpenID Connect. Any
// password is right. Its people are ann (in the groups ops and staff), bob (viewers), eve (staff), mallory, who says that she has the
// address of ann, and nobody, without claims.
package oidctest

import (
	"bufio"
	"embed"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/npmtest"
)

// files has the provider, and the files by which npm gets its packages.
//
//go:embed provider
var files embed.FS

// The client that the provider knows.
const (
	ClientID     = "dashboard"
	ClientSecret = "a secret that only tests have"
)

// Provider is a provider that can be stopped and started.
type Provider struct {
	URL string // its issuer; it stays the same

	t      testing.TB
	folder string
	cmd    *exec.Cmd
	stdin  io.Closer
}

// Start starts a provider, which ends with the test. The test is skipped if npm does not get its packages.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, folder: npmtest.Install(t, files, "provider", "the log-in at an identity provider is NOT tested with a real one")}
	p.start("0", time.Minute)
	t.Cleanup(p.Stop)
	return p
}

// Restart starts the provider at the same address, with other keys, and nobody is logged in there any more. It must have been stopped. An
// ID token is valid for a time.
func (p *Provider) Restart(valid time.Duration) {
	p.t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	p.start(u.Port(), valid)
}

func (p *Provider) start(port string, valid time.Duration) {
	p.t.Helper()
	cmd := exec.Command("node", filepath.Join(p.folder, "provider.mjs"), port, strconv.Itoa(int(valid.Seconds())))
	var said strings.Builder
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if issuer := lines.Text(); strings.HasPrefix(issuer, "http://") {
			p.URL, p.cmd, p.stdin = issuer, cmd, stdin
			go func() { _, _ = io.Copy(io.Discard, stdout) }() // so that it can go on printing
			return
		}
	}
	_ = stdin.Close()
	p.t.Fatalf("the provider does not start: %v\n%s", cmd.Wait(), said.String())
}

// SendLogoutTokens has the provider send logout tokens to a URL, until it is stopped.
func (p *Provider) SendLogoutTokens(to string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.URL+"/logout-tokens-to?"+to, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		p.t.Fatalf("the provider answers with %s", res.Status)
	}
}

// Stop stops the provider, if it runs.
func (p *Provider) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
	p.cmd = nil
}
