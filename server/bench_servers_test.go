package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// apiServers are the ways to serve the API to gRPC libraries.
var apiServers = []struct {
	name  string
	serve func(b *testing.B, n *node, network, addr string) net.Addr
}{
	{"net-http", func(b *testing.B, n *node, network, addr string) net.Addr {
		return listenOn(b, network, addr, server.ListenConfig{Handler: n.handler()})
	}},
	{"net-http-with-grpc-go", func(b *testing.B, n *node, network, addr string) net.Addr {
		api := n.handler()
		library := api.GRPC()
		return listenOn(b, network, addr, server.ListenConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				library.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		})})
	}},
	{"both-by-route", func(b *testing.B, n *node, network, addr string) net.Addr {
		api := n.handler()
		return listenOn(b, network, addr, server.ListenConfig{Handler: api, GRPC: api.GRPC()})
	}},
	{"grpc-go-alone", func(b *testing.B, n *node, network, addr string) net.Addr {
		l, err := new(net.ListenConfig).Listen(b.Context(), network, addr)
		if err != nil {
			b.Fatal(err)
		}
		s := n.handler().GRPC()
		go s.Serve(l)
		b.Cleanup(s.Stop)
		return l.Addr()
	}},
}

// listenOn opens a listener on an address of TCP or of a socket.
func listenOn(b *testing.B, network, addr string, c server.ListenConfig) net.Addr {
	c.Address = addr
	if network == "unix" {
		c.Address, c.SocketMode = "unix:"+addr, 0o600
	}
	return listenTo(b, c).Addr()
}

// BenchmarkServers compares servers of the API. Each adds tasks to an engine in memory, by 256 unary calls at a time or
// by eight streams, of a client in the same process. cpu-us is the CPU time for each task, of client and server
// together: the client is the same, so the servers make the difference.
func BenchmarkServers(b *testing.B) {
	for _, s := range apiServers {
		for _, network := range []string{"tcp", "unix"} {
			for _, call := range []struct {
				name    string
				measure func(*testing.B, *grpc.ClientConn)
			}{{"unary", measureCalls}, {"stream", measureStreams}} {
				b.Run(call.name+"/"+network+"/"+s.name, func(b *testing.B) {
					addr := "127.0.0.1:0"
					if network == "unix" {
						addr = filepath.Join(b.TempDir(), "s")
					}
					at := s.serve(b, newNode(b), network, addr)
					c, err := grpc.NewClient("passthrough:///"+at.String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
						grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
							return new(net.Dialer).DialContext(ctx, network, addr)
						}))
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { c.Close() })
					call.measure(b, c)
				})
			}
		}
	}
}

// benchTask is a task that a benchmark adds.
func benchTask() *taskenginev1.NewTask {
	return &taskenginev1.NewTask{Type: "idle", Input: &taskenginev1.NewTask_Payload{Payload: make([]byte, 256)}}
}

// measureCalls adds b.N tasks by unary calls, 256 at a time.
func measureCalls(b *testing.B, c *grpc.ClientConn) {
	req := &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{benchTask()}}
	measureTasks(b, 256, 1, func() (func() error, func()) {
		return func() error {
			return c.Invoke(b.Context(), taskenginev1connect.TaskServiceSubmitProcedure, req, new(taskenginev1.SubmitResponse))
		}, func() {}
	})
}

// measureStreams adds b.N tasks by eight streams. Each sends a message of 16 tasks when all of the last one have an outcome.
func measureStreams(b *testing.B, c *grpc.ClientConn) {
	const tasks = 16
	measureTasks(b, 8, tasks, func() (func() error, func()) {
		s, err := c.NewStream(b.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, taskenginev1connect.TaskServiceSubmitStreamProcedure)
		if err != nil {
			return func() error { return err }, func() {}
		}
		req := new(taskenginev1.SubmitStreamRequest)
		for i := range tasks {
			req.Tasks = append(req.Tasks, streamed(uint64(i), benchTask()))
		}
		add := func() error {
			if err := s.SendMsg(req); err != nil {
				return err
			}
			for got := 0; got < tasks; {
				res := new(taskenginev1.SubmitStreamResponse)
				if err := s.RecvMsg(res); err != nil {
					return err
				}
				for _, o := range res.GetOutcomes() {
					if o.GetReceipt() == nil {
						return fmt.Errorf("a task is not added: %v", o)
					}
				}
				got += len(res.GetOutcomes())
			}
			return nil
		}
		return add, func() { _ = s.CloseSend() }
	})
}

// measureTasks adds b.N tasks from so many goroutines. begin returns a function that adds so many of them, and one that
// is called at the end.
func measureTasks(b *testing.B, goroutines, tasks int, begin func() (add func() error, end func())) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	before := cpuTime(b)
	b.ResetTimer()
	for range goroutines {
		all.Go(func() {
			add, end := begin()
			defer end()
			for left.Add(-int64(tasks)) > -int64(tasks) {
				if err := add(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
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
