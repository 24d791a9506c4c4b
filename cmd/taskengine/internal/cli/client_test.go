package cli

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// resets is the address of a node that resets each connection when it has read a request, as the
// system does for a node that is killed.
func resets(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestANodeWithAConnectionThatIsResetIsUnavailable(t *testing.T) {
	a := &app{address: resets(t), env: func(string) (string, bool) { return "", false }}
	c, err := a.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := waiter{client: c, req: &taskenginev1.WaitRequest{Type: "mail"}, heard: time.Now()}
	_, err = w.poll(t.Context())
	if err == nil || !w.worthAnother(err) {
		t.Errorf("a wait ends with %v, want another try", err)
	}
	if err := c.explain(err); exit.Code(err) != exit.Unavailable {
		t.Errorf("the exit code is %d (%v), want %d", exit.Code(err), err, exit.Unavailable)
	}
}

func TestAFullBacklogHasAnExitCodeOfItsOwn(t *testing.T) {
	full := connect.NewError(connect.CodeResourceExhausted, errors.New("the backlog is full"))
	full.Meta().Set(server.FullHeader, "backlog")
	tooLarge := connect.NewError(connect.CodeResourceExhausted, errors.New("message size 9 is larger than 8"))
	for err, code := range map[error]int{full: exit.Backlog, tooLarge: exit.Usage} {
		if got := exit.Code(new(client).explain(err)); got != code {
			t.Errorf("%v: the exit code is %d, want %d", err, got, code)
		}
	}
}

func TestOfSeveralNodesTheFirstThatTakesAConnectionIsUsed(t *testing.T) {
	live := resets(t)
	for given, want := range map[string]string{
		"127.0.0.1:1, http://" + live + ",": "http://" + live,
		"unix:/nowhere," + live:             live,
		"127.0.0.1:1,127.0.0.1:2":           "127.0.0.1:1",
		"127.0.0.1:1":                       "127.0.0.1:1",
	} {
		a := &app{address: given}
		if at, _, err := a.node(); err != nil || at != want {
			t.Errorf("of %q the node is %q, %v, want %q", given, at, err, want)
		}
	}
	for _, given := range []string{"", " , ", "127.0.0.1:1,ftp://a"} {
		a := &app{address: given}
		if _, _, err := a.node(); exit.Code(err) != exit.Usage {
			t.Errorf("the address %q: %v", given, err)
		}
	}
}

func TestACommandUsesNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	a := &app{address: "http://node.example:7420", env: func(string) (string, bool) { return "", false }}
	c, err := a.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.http.Transport.(bearer).Proxy != nil {
		t.Error("the connections have a proxy")
	}
}

func TestResponsesOfThisMachineAreNotCompressed(t *testing.T) {
	asked := make(chan []string, 1)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Values("Accept-Encoding")
		w.Header().Set("Content-Type", "application/proto")
	}))
	defer node.Close()
	a := &app{address: node.URL, env: func(string) (string, bool) { return "", false }}
	c, err := a.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.List(t.Context(), &taskenginev1.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(<-asked, ","); strings.Contains(got, "gzip") {
		t.Errorf("a response is accepted with %s", got)
	}
	for base, want := range map[string]bool{"http://127.0.0.1:7420": true, "http://[::1]:7420": true, "https://localhost:7420": true, "http://10.0.0.1:7420": false, "http://node:7420": false} {
		if got := isOnThisMachine(base, base); got != want {
			t.Errorf("%s is on this machine: %v", base, got)
		}
	}
	if !isOnThisMachine("unix:/run/api.sock", "http://node") {
		t.Error("a socket is not on this machine")
	}
}
