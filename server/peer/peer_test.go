package peer_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// node is a node that can be asked. It notes the callers.
type node struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	peers   *peer.Peers
	url     string
	callers chan peer.Caller
	answer  error
}

func (n *node) ListWorkers(context.Context, *taskenginev1.ListWorkersRequest) (*taskenginev1.ListWorkersResponse, error) {
	return &taskenginev1.ListWorkersResponse{}, n.answer
}

func open(t *testing.T, secrets coord.Config, id task.ID, name string) *node {
	t.Helper()
	n := &node{callers: make(chan peer.Caller, 100)}
	n.peers = peer.New(peer.Config{
		Name: name, Self: func() task.ID { return id }, Members: func() []coord.Member { return nil }, Secrets: secrets,
		Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(n.peers.Close)
	path, handler := taskenginev1connect.NewTaskServiceHandler(n)
	mux := http.NewServeMux()
	mux.Handle(peer.Greeting, n.peers)
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		caller, from, err := n.peers.Accept(r.Context(), r.URL.Path, r.Header.Get(peer.Header))
		if err != nil || from != "a b" {
			t.Errorf("a request from %q: %v", from, err)
		}
		n.callers <- caller
		handler.ServeHTTP(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	n.url = s.URL
	return n
}

// ask asks nodes for their workers, and returns the errors.
func ask(t *testing.T, from *node, by peer.Caller, nodes ...coord.Member) (errs []error) {
	t.Helper()
	for _, one := range peer.Ask(peer.For(t.Context(), by), from.peers, nodes, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.ListWorkersResponse, error) {
		return c.ListWorkers(ctx, &taskenginev1.ListWorkersRequest{})
	}) {
		errs = append(errs, one.Err)
	}
	return errs
}

func TestANodeIsAskedForItsCaller(t *testing.T) {
	secrets := local.New()
	a, b := open(t, secrets, task.ID{1}, "a b"), open(t, secrets, task.ID{2}, "b")
	derived := coord.Derived(task.ID{2}, 3) // of a node with a store of its own
	ann, err := access.Named("Zoë+x@example.com")
	if err != nil {
		t.Fatal(err)
	}
	ann.Roles, ann.Types, ann.Expires = []access.Role{access.Manage}, []string{"mail-*"}, time.Now().Add(time.Hour).UTC()
	for _, by := range []peer.Caller{{Kind: peer.Local}, {Kind: peer.Open}, {Kind: peer.Token, Hash: access.HashOf("x")}, {Kind: peer.Person, Person: ann}} {
		if errs := ask(t, a, by, coord.Member{Incarnation: derived, Address: b.url + "/"}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if got := <-b.callers; !reflect.DeepEqual(got, by) {
			t.Errorf("the caller is %+v, want %+v", got, by)
		}
	}
	b.answer = connect.NewError(connect.CodeNotFound, errors.New("no such worker"))
	errs := ask(t, a, peer.Caller{Kind: peer.Open}, coord.Member{Incarnation: task.ID{2}, Address: b.url})
	if silent := new(peer.SilentError); errors.As(errs[0], &silent) || connect.CodeOf(errs[0]) != connect.CodeNotFound {
		t.Errorf("an answer that is an error is %v", errs[0])
	}
}

func TestStrangersAtAnAddressAreNotAsked(t *testing.T) {
	secrets := local.New()
	a, c := open(t, secrets, task.ID{1}, "a b"), open(t, secrets, task.ID{3}, "c")
	foreign := open(t, local.New(), task.ID{2}, "b")
	var heard atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if heard.Add(1); r.URL.Path != peer.Greeting || r.Header.Get(peer.Header) != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("a stranger got %v", r)
		}
		http.Redirect(w, r, c.url+peer.Greeting, http.StatusTemporaryRedirect)
	}))
	defer stranger.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	wants := map[string]string{
		"":                            "announces no address",
		"http://" + l.Addr().String(): "connection refused",
		stranger.URL:                  "is no node that can be asked",
		foreign.url:                   "a node of another cluster answers",
		c.url:                         `the node "c" answers at`,
		"https" + c.url[len("http"):]: "HTTP", // it does not encrypt
	}
	for address, want := range wants {
		errs := ask(t, a, peer.Caller{Kind: peer.Open}, coord.Member{Incarnation: task.ID{2}, Address: address})
		if silent := new(peer.SilentError); !errors.As(errs[0], &silent) || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("at %q: %v, want %s", address, errs[0], want)
		}
	}
	if heard.Load() != 1 || len(c.callers)+len(foreign.callers) > 0 {
		t.Errorf("%d requests to the stranger, %d to others", heard.Load(), len(c.callers)+len(foreign.callers))
	}
}

func TestANodeThatHangsDoesNotDelayTheAnswerOfOthers(t *testing.T) {
	secrets := local.New()
	a, b := open(t, secrets, task.ID{1}, "a b"), open(t, secrets, task.ID{2}, "b")
	a.peers = peer.New(peer.Config{
		Name: "a b", Self: func() task.ID { return task.ID{1} }, Secrets: secrets, Timeout: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	defer a.peers.Close()
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	errs := ask(t, a, peer.Caller{Kind: peer.Open}, coord.Member{Incarnation: task.ID{9}, Address: "http://" + hangs.Addr().String()})
	if silent := new(peer.SilentError); !errors.As(errs[0], &silent) || errs[0].Error() != "it did not answer within 200ms" {
		t.Errorf("the node that hangs: %v", errs[0])
	}
	a.peers = open(t, secrets, task.ID{1}, "a b").peers
	if errs := ask(t, a, peer.Caller{Kind: peer.Open}, coord.Member{Incarnation: task.ID{2}, Address: b.url}); errs[0] != nil {
		t.Error(errs[0])
	}
}

func TestARequestThatNoNodeHasSignedForThisNodeIsRefused(t *testing.T) {
	secrets := local.New()
	var header string
	a, b := open(t, secrets, task.ID{1}, "a b"), open(t, secrets, task.ID{2}, "b")
	catcher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == peer.Greeting {
			b.peers.ServeHTTP(w, r)
			return
		}
		header = r.Header.Get(peer.Header)
	}))
	defer catcher.Close()
	ask(t, a, peer.Caller{Kind: peer.Local}, coord.Member{Incarnation: task.ID{2}, Address: catcher.URL})
	path := taskenginev1connect.TaskServiceListWorkersProcedure
	if c, _, err := b.peers.Accept(t.Context(), path, header); err != nil || c.Kind != peer.Local {
		t.Fatalf("%q: %+v, %v", header, c, err)
	}
	other := open(t, secrets, task.ID{3}, "c")
	for name, refused := range map[string]func() error{
		"another node": func() error { _, _, err := other.peers.Accept(t.Context(), path, header); return err },
		"another method": func() error {
			_, _, err := b.peers.Accept(t.Context(), taskenginev1connect.TaskServiceDrainNodeProcedure, header)
			return err
		},
		"another caller": func() error {
			_, _, err := b.peers.Accept(t.Context(), path, strings.Replace(header, "local", "open", 1))
			return err
		},
		"another cluster": func() error {
			_, _, err := open(t, local.New(), task.ID{2}, "b").peers.Accept(t.Context(), path, header)
			return err
		},
		"no fields": func() error { _, _, err := b.peers.Accept(t.Context(), path, "x"); return err },
	} {
		if refused() == nil {
			t.Errorf("%s accepts it", name)
		}
	}
}

func TestNodesThatStartAtOnceHaveOneSecret(t *testing.T) {
	secrets := local.New()
	nodes := make([]*node, 8)
	for i := range nodes {
		nodes[i] = open(t, secrets, task.ID{byte(i + 1)}, "a b")
	}
	done := make(chan []error)
	for i := range nodes {
		go func() {
			next := (i + 1) % len(nodes)
			done <- ask(t, nodes[i], peer.Caller{Kind: peer.Open}, coord.Member{Incarnation: task.ID{byte(next + 1)}, Address: nodes[next].url})
		}()
	}
	for range nodes {
		if errs := <-done; errs[0] != nil {
			t.Error(errs[0])
		}
	}
}
