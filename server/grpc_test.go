package server_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// library returns a connection of grpc-go to the API.
func (n *node) library(t testing.TB, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(n.api.Addr().String(), append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestGRPCServesEveryMethod(t *testing.T) {
	n := newNode(t)
	served := make(map[string]bool)
	info := n.handler().GRPC().GetServiceInfo()[taskenginev1connect.TaskServiceName]
	for _, m := range info.Methods {
		served[m.Name] = true
	}
	methods := taskenginev1.File_taskengine_v1_taskengine_proto.Services().ByName("TaskService").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		if !served[string(m.Name())] {
			t.Errorf("%s is not served", m.Name())
		}
		at := slices.IndexFunc(info.Methods, func(i grpc.MethodInfo) bool { return i.Name == string(m.Name()) })
		if at >= 0 && (info.Methods[at].IsClientStream != m.IsStreamingClient() || info.Methods[at].IsServerStream != m.IsStreamingServer()) {
			t.Errorf("%s is served as %+v", m.Name(), info.Methods[at])
		}
	}
	if len(served) != methods.Len() {
		t.Errorf("%d methods are served, of %d", len(served), methods.Len())
	}
}

// Each request gets the same answer from the server for gRPC libraries as from that for all protocols.
func TestALibraryOfGRPCGetsTheSameAnswers(t *testing.T) {
	n := newNode(t)
	library, other := n.library(t), n.client(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "full"})
	n.submit(t, &taskenginev1.NewTask{Type: "full"})
	submit := func(tasks ...*taskenginev1.NewTask) *taskenginev1.SubmitRequest {
		return &taskenginev1.SubmitRequest{Tasks: tasks}
	}
	for name, req := range map[string]*taskenginev1.SubmitRequest{
		"accepted":     submit(&taskenginev1.NewTask{Id: id, Type: "full"}),
		"no tasks":     submit(),
		"no type":      submit(&taskenginev1.NewTask{}),
		"full":         submit(&taskenginev1.NewTask{Type: "full"}),
		"too large":    submit(&taskenginev1.NewTask{Type: "idle", Input: &taskenginev1.NewTask_Payload{Payload: make([]byte, 5<<20)}}),
		"one of which": submit(&taskenginev1.NewTask{Type: "idle"}, &taskenginev1.NewTask{Type: "idle", In: durationpb.New(-1)}),
	} {
		want, wantErr := other.Submit(t.Context(), req)
		got, trailer := new(taskenginev1.SubmitResponse), metadata.MD{}
		err := library.Invoke(t.Context(), taskenginev1connect.TaskServiceSubmitProcedure, req, got, grpc.Trailer(&trailer))
		if wantErr == nil {
			if err != nil || got.String() != want.String() {
				t.Errorf("%s: the library gets %v, %v, want %v", name, got, err, want)
			}
			continue
		}
		remote := wantErr.(*connect.Error)
		if uint32(status.Code(err)) != uint32(remote.Code()) || status.Convert(err).Message() != remote.Message() && name != "too large" {
			t.Errorf("%s: the library gets %v, want %v", name, err, remote)
		}
		if full := strings.Join(trailer.Get(server.FullHeader), ""); full != remote.Meta().Get(server.FullHeader) {
			t.Errorf("%s: the library gets the header %q, want %q", name, full, remote.Meta().Get(server.FullHeader))
		}
	}
	found := new(taskenginev1.GetResponse)
	err := library.Invoke(t.Context(), taskenginev1connect.TaskServiceGetProcedure, &taskenginev1.GetRequest{Id: id}, found, grpc.UseCompressor(gzip.Name))
	if err != nil || found.GetTask().GetId() != id {
		t.Errorf("a compressed request gets %v, %v", found, err)
	}
	if _, page := get(t, admin(t, n.health, n.metrics), "/metrics", ""); !strings.Contains(page, `taskengine_api_request_seconds_count{code="ok",method="Get"} 1`) {
		t.Error("the metrics do not count the request")
	}
}

func TestALibraryOfGRPCReadsStreams(t *testing.T) {
	n := newNode(t)
	close(n.release)
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.settle(t, id)
	s, err := n.library(t).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, taskenginev1connect.TaskServiceTaskLogsProcedure)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(&taskenginev1.TaskLogsRequest{Id: id}); err != nil || s.CloseSend() != nil {
		t.Fatal(err)
	}
	res := new(taskenginev1.TaskLogsResponse)
	if err := s.RecvMsg(res); err != nil || len(res.GetLines()) != 2 || !res.GetComplete() {
		t.Errorf("the log is %v, %v", res, err)
	}
	if err := s.RecvMsg(res); err != io.EOF {
		t.Errorf("after the log comes %v", err)
	}
}

// raw is a connection on which a test writes frames of HTTP/2.
type raw struct {
	net.Conn
	*http2.Framer
}

func (n *node) raw(t *testing.T) *raw {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.api.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	r := &raw{c, http2.NewFramer(c, bufio.NewReader(c))}
	if err := r.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return r
}

// request writes a request that has all its body in one frame.
func (r *raw) request(t *testing.T, stream uint32, body []byte, header ...string) {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(header); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: header[i], Value: header[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteData(stream, true, body); err != nil {
		t.Fatal(err)
	}
}

// awaitFrame reads frames until one is wanted. It acknowledges settings.
func (r *raw) awaitFrame(t *testing.T, wanted func(http2.Frame) bool) {
	t.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("the node ends the connection: %v", err)
		}
		if away, ok := f.(*http2.GoAwayFrame); ok {
			t.Fatalf("the node goes away: %v %s", away, away.DebugData())
		}
		if wanted(f) {
			return
		}
		if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
			if err := r.WriteSettingsAck(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func isEnd(f http2.Frame) bool {
	return f.Header().Flags.Has(http2.FlagDataEndStream) && f.Header().StreamID != 0
}

// A client may wait for the settings of the node, and for the answer to a ping, before its first request. Two servers
// have sent settings then, and each of them gets the acknowledgement of its own.
func TestAConnectionThatBeginsSlowlyIsServed(t *testing.T) {
	n := newNode(t)
	version := []string{":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", taskenginev1connect.TaskServiceVersionProcedure}
	for name, c := range map[string]struct {
		body   []byte
		header []string
	}{
		"for net/http": {[]byte("{}"), append(version, "content-type", "application/json")},
		"for grpc-go":  {make([]byte, 5), append(version, "content-type", "application/grpc", "te", "trailers", "user-agent", "grpc-c++/1.50")},
	} {
		t.Run(name, func(t *testing.T) {
			r := n.raw(t)
			r.awaitFrame(t, func(f http2.Frame) bool { s, ok := f.(*http2.SettingsFrame); return ok && !s.IsAck() })
			if err := r.WritePing(false, [8]byte{1}); err != nil {
				t.Fatal(err)
			}
			r.awaitFrame(t, func(f http2.Frame) bool { p, ok := f.(*http2.PingFrame); return ok && p.IsAck() })
			if err := r.WriteSettingsAck(); err != nil {
				t.Fatal(err)
			}
			for stream := uint32(1); stream <= 5; stream += 2 {
				r.request(t, stream, c.body, c.header...)
				r.awaitFrame(t, isEnd)
			}
		})
	}
}

func TestAConnectionOfAProxyServesAllProtocols(t *testing.T) {
	n := newNode(t)
	r := n.raw(t)
	begin := []string{":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", taskenginev1connect.TaskServiceVersionProcedure}
	r.request(t, 1, make([]byte, 5), append(begin, "content-type", "application/grpc", "user-agent", "grpc-go/1.80", "via", "2 proxy")...)
	r.awaitFrame(t, isEnd)
	r.request(t, 3, []byte("{}"), append(begin, "content-type", "application/json")...)
	r.awaitFrame(t, func(f http2.Frame) bool {
		data, ok := f.(*http2.DataFrame)
		return ok && strings.Contains(string(data.Data()), `"version"`)
	})
}

// What does not begin like a request ends its own connection, and no other.
func TestAMalformedBeginningEndsItsConnection(t *testing.T) {
	n := newNode(t)
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, begin := range map[string]string{
		"nothing":            "",
		"half a preface":     http2.ClientPreface[:10],
		"no protocol":        "hello\r\n\r\n",
		"half a frame":       http2.ClientPreface + "\x00\x00",
		"a huge frame":       http2.ClientPreface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",
		"data first":         http2.ClientPreface + settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x01x",
		"no header in it":    http2.ClientPreface + settings + "\x00\x00\x03\x01\x05\x00\x00\x00\x01\xff\xff\xff",
		"only continuations": http2.ClientPreface + settings + "\x00\x00\x00\x09\x00\x00\x00\x00\x01",
		"many settings":      http2.ClientPreface + strings.Repeat(settings, 100),
	} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.api.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(name, err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(name, err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection does not end: %v", name, err)
		}
		c.Close()
	}
	n.submit(t, &taskenginev1.NewTask{Type: "idle"})
}

// A listener is closed while a request is under way on each of its servers.
func TestClosingAListenerWaitsForRequestsOfBothServers(t *testing.T) {
	for name, hurry := range map[string]bool{"waits": false, "in a hurry": true} {
		t.Run(name, func(t *testing.T) {
			begun, release := make(chan struct{}, 2), make(chan struct{})
			held := func(ctx context.Context) {
				begun <- struct{}{}
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			g := grpc.NewServer(grpc.WaitForHandlers(true), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
				held(s.Context())
				return status.Error(codes.AlreadyExists, "answered")
			}))
			l, err := server.Listen(t.Context(), server.ListenConfig{
				Address: "127.0.0.1:0", GRPC: g, Log: discard,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					held(r.Context())
					io.WriteString(w, "answered")
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			library, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer library.Close()
			answers := make(chan string, 2)
			go func() {
				answers <- status.Convert(library.Invoke(t.Context(), "/a/b", &taskenginev1.GetRequest{}, &taskenginev1.GetResponse{})).Message()
			}()
			client := httpClient(t, false)
			go func() {
				res, err := client.Get("http://" + l.Addr().String())
				if err != nil {
					answers <- err.Error()
					return
				}
				defer res.Body.Close()
				text, _ := io.ReadAll(res.Body)
				answers <- string(text)
			}()
			<-begun
			<-begun
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			closed := make(chan error, 1)
			go func() { closed <- l.Close(ctx) }()
			awaitRefused(t, l.Addr().String())
			if hurry {
				cancel()
			} else {
				close(release)
			}
			for range 2 {
				if got := <-answers; (got == "answered") == hurry {
					t.Errorf("a request that was under way got %q", got)
				}
			}
			if err := <-closed; (err != nil) != hurry {
				t.Errorf("closing: %v", err)
			}
		})
	}
}

// awaitRefused waits until an address takes no more connections.
func awaitRefused(t *testing.T, addr string) {
	t.Helper()
	for {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return
		}
		c.Close()
		time.Sleep(time.Millisecond)
	}
}
