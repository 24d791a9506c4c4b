//go:build !race

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// wayInConfig makes a node with a Go plugin and tasks that are not kept.
const wayInConfig = `
node: {slots: 1024}
storage: {driver: pebble, path: %[1]q}
retention: {done: 0s}
handlers: {go: {plugin: [%[2]q], env: {%[3]s: plugin}, slots: 512}}
types: {shout: {handler: go}}
api: {socket: %[4]q}
`

// wayInPayload is the payload of the tasks of BenchmarkWayIn.
var wayInPayload = []byte(`"` + strings.Repeat("x", 254) + `"`)

// BenchmarkWayIn measures how fast tasks are added to a node from outside: client, node and a Go
// plugin on the same machine, on pebble, every receipt durable. "library" adds them to an engine
// in this process, with a handler that does nothing. of-library is the rate divided by that of
// the library with as many in flight, node-us and client-us are the CPU time for each task.
func BenchmarkWayIn(b *testing.B) {
	b.Run("sync", benchmarkSync)
	library := make(map[int]float64) // rates, by how many are in flight
	e := wayInLibrary(b)
	for _, inFlight := range []int{1, 256, 512} {
		b.Run(fmt.Sprintf("library/in-flight=%d", inFlight), func(b *testing.B) {
			load := wayInLoad{inFlight: inFlight, batch: 1, submit: func(ctx context.Context, _ int) error {
				_, err := e.Submit(ctx, engine.Request{Type: "shout", Payload: wayInPayload})
				return err
			}}
			library[inFlight] = load.run(b)
			if err := e.WaitType(b.Context(), "shout"); err != nil {
				b.Fatal(err)
			}
		})
	}
	socket := filepath.Join(b.TempDir(), "api.sock")
	n := start(b, nil, "run", "-c", write(b, "taskengine.yaml", fmt.Sprintf(wayInConfig, filepath.Join(diskFolder(b), "data"), executable(b), role, socket)))
	grpcGo := wayInLibraryOfGRPC(b, n)
	overHTTP2, overHTTP1 := wayInClient(b, n, true, connect.WithGRPC()), wayInClient(b, n, false)
	for _, w := range []struct {
		name            string
		inFlight, batch int
		submit          wayInSubmit
	}{
		{"grpc-go", 1, 1, grpcGo},
		{"grpc-go", 256, 1, grpcGo},
		{"grpc-go", 512, 1, grpcGo},
		{"grpc-go", 8, 100, grpcGo},
		{"grpc-by-connect", 1, 1, overHTTP2.Submit},
		{"grpc-by-connect", 256, 1, overHTTP2.Submit},
		{"grpc-by-connect", 8, 100, overHTTP2.Submit},
		{"http1-by-connect", 1, 1, overHTTP1.Submit},
		{"http1-by-connect", 256, 1, overHTTP1.Submit},
		{"client", 1, 1, wayInGo(b, n.api)},
		{"client", 256, 1, wayInGo(b, n.api)},
		{"client", 512, 1, wayInGo(b, n.api)},
		{"client", 2048, 1, wayInGo(b, n.api)},
		{"client-by-socket", 1, 1, wayInGo(b, "unix:"+socket)},
		{"client-by-socket", 512, 1, wayInGo(b, "unix:"+socket)},
	} {
		b.Run(fmt.Sprintf("%s/in-flight=%d/batch=%d", w.name, w.inFlight, w.batch), func(b *testing.B) {
			load := wayInLoad{inFlight: w.inFlight, batch: w.batch, node: n.cmd.Process.Pid, submit: func(ctx context.Context, tasks int) error {
				req := &taskenginev1.SubmitRequest{}
				for range tasks {
					req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Type: "shout", Input: &taskenginev1.NewTask_Payload{Payload: wayInPayload}})
				}
				_, err := w.submit(ctx, req)
				return err
			}}
			rate := load.run(b)
			if base := library[min(512, w.inFlight*w.batch)]; base > 0 {
				b.ReportMetric(rate/base, "of-library")
			}
			awaitIdle(b, overHTTP1)
		})
	}
	b.Run("client-later/in-flight=1/batch=1", func(b *testing.B) { // no task runs in that time
		c, err := client.Open([]string{n.api}, client.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		load := wayInLoad{inFlight: 1, batch: 1, node: n.cmd.Process.Pid, submit: func(ctx context.Context, _ int) error {
			_, err := c.Submit(ctx, "shout", client.Raw(wayInPayload), client.In(time.Hour))
			return err
		}}
		load.run(b)
	})
}

// benchmarkSync measures a write that is synced: the least that a durable submit costs.
func benchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(diskFolder(b), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	if _, err := f.Write(make([]byte, 1<<20)); err != nil || f.Sync() != nil {
		b.Fatal(err)
	}
	load := wayInLoad{inFlight: 1, batch: 1, submit: func(context.Context, int) error {
		if _, err := f.WriteAt(block, 0); err != nil {
			return err
		}
		return syscall.Fdatasync(int(f.Fd()))
	}}
	load.run(b)
}

// diskFolder returns a new folder on a real disk: the usual place for temporary files is memory on
// many machines, where a sync costs nothing.
func diskFolder(tb testing.TB) string {
	dir, err := os.MkdirTemp("/var/tmp", "taskengine-e2e-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func executable(tb testing.TB) string {
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return self
}

// wayInLibrary opens an engine in this process.
func wayInLibrary(b *testing.B) *engine.Engine {
	store, err := pebble.Open(filepath.Join(diskFolder(b), "data"), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	typ := policy.DefaultType()
	typ.Retention = policy.Retention{}
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: policy.Set{Slots: 1024, Types: map[string]policy.Type{"shout": typ}},
		Handlers: map[string]task.Handler{"shout": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close(context.Background()) })
	return e
}

func wayInClient(b *testing.B, n *running, h2 bool, o ...connect.ClientOption) taskenginev1connect.TaskServiceClient {
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	transport := &http.Transport{Protocols: &p, MaxIdleConnsPerHost: 1024}
	b.Cleanup(transport.CloseIdleConnections)
	return taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, "http://"+n.api, o...)
}

// wayInSubmit is a way to add tasks.
type wayInSubmit func(context.Context, *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error)

func wayInLibraryOfGRPC(b *testing.B, n *running) wayInSubmit {
	c, err := grpc.NewClient(n.api, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func(ctx context.Context, req *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error) {
		res := new(taskenginev1.SubmitResponse)
		return res, c.Invoke(ctx, taskenginev1connect.TaskServiceSubmitProcedure, req, res)
	}
}

// wayInGo is the client of package client. Its calls share messages. It sends the first task of a request.
func wayInGo(b *testing.B, address string) wayInSubmit {
	c, err := client.Open([]string{address}, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func(ctx context.Context, req *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error) {
		_, err := c.Submit(ctx, req.GetTasks()[0].GetType(), client.Raw(req.GetTasks()[0].GetPayload()))
		return nil, err
	}
}

// awaitIdle waits until the node has run all its tasks.
func awaitIdle(b *testing.B, c taskenginev1connect.TaskServiceClient) {
	for {
		res, err := c.Wait(b.Context(), &taskenginev1.WaitRequest{Type: "shout"})
		if err != nil {
			b.Fatal(err)
		}
		if res.GetSettled() {
			return
		}
	}
}

// wayInLoad adds tasks, several requests at a time.
type wayInLoad struct {
	inFlight, batch int
	node            int // its process; 0 if there is none
	submit          func(ctx context.Context, tasks int) error
}

// run adds about b.N tasks, reports the time and CPU time, and returns the tasks per second.
func (l wayInLoad) run(b *testing.B) float64 {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(max(1, b.N/l.batch)))
	took := make([][]time.Duration, l.inFlight)
	clientBegin, nodeBegin := cpuOf(b, "self"), l.cpuOfNode(b)
	b.ResetTimer()
	begin := time.Now()
	for i := range took {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				sent := time.Now()
				if err := l.submit(b.Context(), l.batch); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(sent))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begin)
	b.StopTimer()
	calls := slices.Concat(took...)
	if len(calls) == 0 {
		return 0
	}
	slices.Sort(calls)
	tasks := float64(len(calls) * l.batch)
	b.ReportMetric(tasks/elapsed.Seconds(), "tasks/s")
	b.ReportMetric(float64(calls[len(calls)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(calls[len(calls)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64((cpuOf(b, "self")-clientBegin).Microseconds())/tasks, "client-us")
	if l.node != 0 {
		b.ReportMetric(float64((l.cpuOfNode(b)-nodeBegin).Microseconds())/tasks, "node-us")
	}
	return tasks / elapsed.Seconds()
}

func (l wayInLoad) cpuOfNode(b *testing.B) time.Duration {
	if l.node == 0 {
		return 0
	}
	return cpuOf(b, strconv.Itoa(l.node))
}

// cpuOf returns the CPU time of a process, to a hundredth of a second.
func cpuOf(b *testing.B, process string) time.Duration {
	text, err := os.ReadFile("/proc/" + process + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
