package server_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// BenchmarkServers compares servers of the API: each adds tasks to an engine in memory by unary
// calls, 256 at a time, from the same process. cpu-us is the CPU time for each call, of client and
// server together: where the client is the same, the difference is that of the servers.
func BenchmarkServers(b *testing.B) {
	type call = func(context.Context, *taskenginev1.SubmitRequest) error
	overGRPC := func(b *testing.B, network, addr string) call {
		c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return func(ctx context.Context, req *taskenginev1.SubmitRequest) error {
			return c.Invoke(ctx, taskenginev1connect.TaskServiceSubmitProcedure, req, new(taskenginev1.SubmitResponse))
		}
	}
	overHTTP1 := func(b *testing.B, network, addr string) call {
		transport := &http.Transport{MaxIdleConnsPerHost: 256, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
		b.Cleanup(transport.CloseIdleConnections)
		c := taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, "http://localhost")
		return func(ctx context.Context, req *taskenginev1.SubmitRequest) error {
			_, err := c.Submit(ctx, req)
			return err
		}
	}
	for _, s := range []struct {
		name   string
		serve  func(*testing.B, *node, net.Listener)
		client func(b *testing.B, network, addr string) call
	}{
		{"net-http/gRPC", serveHTTP(nil), overGRPC},
		{"net-http-large-buffers/gRPC", serveHTTP(&http.HTTP2Config{
			MaxConcurrentStreams: 1000, MaxReadFrameSize: 1 << 20, MaxReceiveBufferPerConnection: 16 << 20, MaxReceiveBufferPerStream: 1 << 20,
		}), overGRPC},
		{"grpc-go/gRPC", func(b *testing.B, n *node, l net.Listener) { serveGRPC(b, n, l) }, overGRPC},
		{"grpc-go-workers/gRPC", func(b *testing.B, n *node, l net.Listener) { serveGRPC(b, n, l, grpc.NumStreamWorkers(16)) }, overGRPC},
		{"net-http/HTTP1", serveHTTP(nil), overHTTP1},
	} {
		for _, network := range []string{"tcp", "unix"} {
			b.Run(s.name+"/"+network, func(b *testing.B) {
				n := newNode(b)
				addr := "127.0.0.1:0"
				if network == "unix" {
					addr = filepath.Join(b.TempDir(), "s")
				}
				l, err := new(net.ListenConfig).Listen(b.Context(), network, addr)
				if err != nil {
					b.Fatal(err)
				}
				s.serve(b, n, l)
				measureCalls(b, s.client(b, network, l.Addr().String()))
			})
		}
	}
}

// serveHTTP serves the API with net/http.
func serveHTTP(c *http.HTTP2Config) func(*testing.B, *node, net.Listener) {
	return func(b *testing.B, n *node, l net.Listener) {
		var p http.Protocols
		p.SetHTTP1(true)
		p.SetUnencryptedHTTP2(true)
		s := &http.Server{Handler: n.handler(), Protocols: &p, HTTP2: c, ReadHeaderTimeout: time.Minute}
		go s.Serve(l)
		b.Cleanup(func() { s.Close() })
	}
}

// serveGRPC serves Submit with the server of grpc-go.
func serveGRPC(b *testing.B, n *node, l net.Listener, o ...grpc.ServerOption) {
	s := grpc.NewServer(o...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: taskenginev1connect.TaskServiceName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Submit", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			req := new(taskenginev1.SubmitRequest)
			if err := decode(req); err != nil {
				return nil, err
			}
			receipts, err := n.engine.Submit(ctx, engine.Request{Type: req.GetTasks()[0].GetType(), Payload: req.GetTasks()[0].GetPayload()})
			if err != nil {
				return nil, err
			}
			return &taskenginev1.SubmitResponse{Receipts: []*taskenginev1.Receipt{{Id: receipts[0].ID.String(), Created: receipts[0].Created}}}, nil
		}}},
	}, nil)
	go s.Serve(l)
	b.Cleanup(s.Stop)
}

// measureCalls makes b.N calls, 256 at a time.
func measureCalls(b *testing.B, call func(context.Context, *taskenginev1.SubmitRequest) error) {
	req := &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "idle", Input: &taskenginev1.NewTask_Payload{Payload: make([]byte, 256)}}}}
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	before := cpuTime(b)
	b.ResetTimer()
	for range 256 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(b.Context(), req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us")
}

// cpuTime returns the CPU time of the process.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
