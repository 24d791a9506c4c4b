package handler

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// greeting is what a worker says first.
type greeting struct {
	authorization []string
	frame         *wire.FromHandler
}

// lobby is a node that hears what workers say first, and welcomes none.
type lobby struct {
	wire.UnimplementedWorkersServer
	came chan greeting
}

func (l *lobby) Work(s grpc.BidiStreamingServer[wire.FromHandler, wire.ToHandler]) error {
	frame, err := s.Recv()
	if err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(s.Context())
	l.came <- greeting{md.Get("authorization"), frame}
	return nil
}

// open serves the lobby and returns its address.
func (l *lobby) open(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	wire.RegisterWorkersServer(s, l)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(listener) })
	t.Cleanup(func() { s.Stop(); serving.Wait() })
	return listener.Addr().String()
}

var echo = Handlers{"echo": Func(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil })}

func TestAWorkerSaysWhatItsEnvironmentSays(t *testing.T) {
	l := &lobby{came: make(chan greeting, 100)}
	t.Setenv("TASKENGINE_ADDRESS", l.open(t))
	t.Setenv("TASKENGINE_TOKEN", "secret")
	t.Setenv("TASKENGINE_WORKER_HANDLER", "mail")
	t.Setenv("TASKENGINE_WORKER_LABELS", " region=eu, disk = fast,")
	t.Setenv(wire.CookieKey, "")
	ended := make(chan error, 1)
	go func() { ended <- Program{Handlers: echo, Version: "v3", Slots: 7}.serve() }()
	g := <-l.came
	offer, hello := g.frame.GetOffer(), g.frame.GetHello()
	if len(g.authorization) != 1 || g.authorization[0] != "Bearer secret" {
		t.Errorf("the authorization is %q", g.authorization)
	}
	if offer.GetHandler() != "mail" || !maps.Equal(offer.GetLabels(), map[string]string{"region": "eu", "disk": "fast"}) || len(offer.GetSession()) != 16 || len(offer.GetRuns()) != 0 {
		t.Errorf("the offer is %v", offer)
	}
	if hello.GetVersion() != "v3" || hello.GetSlots() != 7 || len(hello.GetTypes()) != 1 || hello.GetTypes()[0] != "echo" {
		t.Errorf("the hello is %v", hello)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil { // as a service manager does
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the worker does not end")
	}
}

func TestAWorkerRefusesConnectionsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		program   Program
		addresses []string
		says      string
	}{
		{Program{}, []string{"127.0.0.1:1"}, "serves no task type"},
		{Program{Handlers: echo}, nil, "no address of a node"},
		{Program{Handlers: echo}, []string{"127.0.0.1:1", " "}, `" " is not the address`},
		{Program{Handlers: echo}, []string{"127.0.0.1:1", "http://a/path"}, `"http://a/path" is no URL`},
		{Program{Handlers: echo}, []string{"unix:"}, `"unix:" is not the address`},
	} {
		if err := c.program.Work(t.Context(), Connection{Addresses: c.addresses}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.addresses, err, c.says)
		}
	}
	for _, bad := range []string{" \n", "te_secr\net", "te_secr et", "te_secr\u00e9t", "te_secr\x00et"} {
		err := Program{Handlers: echo}.Work(t.Context(), Connection{Addresses: []string{"127.0.0.1:1"}, Token: bad})
		if err == nil || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "secr") {
			t.Errorf("the token %q: %v", bad, err)
		}
	}
	if got, err := tokenOf(" te_1\r\n"); err != nil || got != "te_1" {
		t.Errorf("a token with white space around it: %q, %v", got, err)
	}
	for address, want := range map[string]string{
		"a:1": "dns:///a:1 false", "http://a:1": "dns:///a:1 false", "http://a/": "dns:///a:80 false", "https://a": "dns:///a:443 true",
		"https://[::1]:1": "dns:///[::1]:1 true", "unix:/s": "unix:/s false",
	} {
		if to, secure, err := target(address, false); err != nil || fmt.Sprint(to, " ", secure) != want {
			t.Errorf("the address %q is %q, %v, %v, want %q", address, to, secure, err, want)
		}
	}
	if to, secure, err := target("a:1", true); to != "dns:///a:1" || !secure || err != nil {
		t.Errorf("with settings of TLS host:port is %q, %v, %v", to, secure, err)
	}
	if _, _, err := target("http://a:1", true); err == nil || !strings.Contains(err.Error(), "write https") {
		t.Errorf("with settings of TLS a URL of http: %v", err)
	}
	if got := addressesIn("a:1, b:2,"); !slices.Equal(got, []string{"a:1", "b:2"}) {
		t.Errorf("the addresses are %q", got)
	}
	if _, err := parseLabels("a=b,c"); err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("labels without a value: %v", err)
	}
}

func TestAWorkerWithoutANodeEndsWhenItIsAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Program{Handlers: echo}.Work(ctx, Connection{Addresses: []string{"127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)})
	}()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the worker does not end")
	}
}
