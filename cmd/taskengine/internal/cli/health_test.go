package cli

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/certtest"
)

// failedDatabase is the admin listener of a node with a failed database.
func failedDatabase(t *testing.T, certificate certtest.Certificate) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			fmt.Fprintln(w, "ok")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "[-] store: the database\x1b is gone")
	}))
	if certificate.File != "" {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Certificate}}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// health runs the command, and returns its exit code and its output.
func health(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	a := &app{
		stdin: strings.NewReader(""), stdout: &out, stderr: &out, ids: fromOS().ids,
		env: func(string) (string, bool) { return "", false },
	}
	return a.run(t.Context(), append([]string{"health"}, args...)), out.String()
}

func TestANodeWithoutItsDatabaseIsAliveAndNotReady(t *testing.T) {
	at := failedDatabase(t, certtest.Certificate{})
	if code, said := health(t, "--admin", at, "--live"); code != exit.OK || said != "ok\n" {
		t.Errorf("alive: %d %q", code, said)
	}
	code, said := health(t, "--admin", at)
	if code != exit.Failure || !strings.HasPrefix(said, "[-] store: the database\\x1b is gone\n") || !strings.Contains(said, "is not ready: 503") {
		t.Errorf("ready: %d %q", code, said)
	}
}

func TestANodeThatDoesNotAnswerIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	if code, said := health(t, "--admin", at); code != exit.Unavailable || !strings.Contains(said, "does not answer") {
		t.Errorf("%d %q", code, said)
	}
}

// The certificate has the name of the node for other machines, and the command connects to this machine.
func TestTheConfigurationOfANodeSaysHowToAskForItsHealth(t *testing.T) {
	certificate := certtest.New(t).Issue(t, "node", "node.example")
	for name, c := range map[string]struct {
		certificate certtest.Certificate
		tls         string
	}{
		"plain": {},
		"TLS":   {certificate, fmt.Sprintf(", tls: {cert: %q, key: %q}", certificate.File, certificate.KeyFile)},
	} {
		t.Run(name, func(t *testing.T) {
			_, port, err := net.SplitHostPort(failedDatabase(t, c.certificate))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "taskengine.yaml")
			if err := os.WriteFile(file, []byte("admin: {listen: '0.0.0.0:"+port+"'"+c.tls+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, said := health(t, "-c", file, "--live"); code != exit.OK || said != "ok\n" {
				t.Errorf("%d %q", code, said)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "taskengine.yaml")
	if err := os.WriteFile(file, []byte("admin: {listen: none}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := health(t, "-c", file); code != exit.Config || !strings.Contains(said, "set admin.listen") {
		t.Errorf("no listener: %d %q", code, said)
	}
}
