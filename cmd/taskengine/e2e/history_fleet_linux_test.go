package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// fleetConfig makes nodes with a plugin that notes the begin and the end of its tasks.
const fleetConfig = `
node: {slots: 32}
storage: %s
coordination: {driver: %s, lease: %s}
handlers:
  witness: {plugin: [%q], env: {%s: plugin, WITNESS: %q, NODE: none}, slots: 32, processes: {min: 1, max: 1}}
types:
  pay: {handler: witness, limits: partner, max_crashes: 0, retry: {max: 100, backoff: none}}
  mail: {handler: witness, limits: [total, pace], max_crashes: 0, retry: {max: 100, backoff: none}}
limits:
  total: {max: %d, scope: cluster}
  partner: {of: total, max: %d, per: payload.partner, scope: cluster}
  pace: {rate: {count: %d, per: 1s, burst: %d}, scope: cluster}
`

// fleet is a cluster of nodes that come to harm.
type fleet struct {
	server    *pgtest.Server
	database  string     // its URL
	elsewhere *elsewhere // nil: the nodes coordinate by the database
	file      string     // the configuration
	journal   string
	wires     []*wiretest.Wire
	starts    []int         // of processes, by node
	frozen    map[int][]int // processes that stand still, by node

	mu       sync.Mutex
	nodes    []*running        // guarded by mu
	names    []string          // guarded by mu: of the nodes' processes
	logs     map[string]*lines // guarded by mu while nodes are started: by the name of the process
	observed observed          // guarded by mu
	stops    []stop            // guarded by mu
	accepted map[string]string // guarded by mu while tasks are submitted: the states of the accepted tasks, by id
}

// newFleet starts nodes on a server of their own, which coordinate by a driver.
func newFleet(t *testing.T, driver string) *fleet {
	t.Helper()
	// A server that is crashing waits so long for silent connections, such as the ones of a node that is cut off.
	server := own(t, "authentication_timeout=2s")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		server: server, database: tablesOn(t, server), elsewhere: newElsewhere(t, driver),
		frozen: make(map[int][]int), accepted: make(map[string]string), logs: make(map[string]*lines),
	}
	query(t, f.database, auditSQL)
	f.journal = filepath.Join(t.TempDir(), "journal")
	f.file = write(t, "taskengine.yaml", fmt.Sprintf(fleetConfig, onPostgres(f.database), driver, planLease, self, role, f.journal,
		planTotal, planPartner, planRate, planBurst))
	f.nodes, f.names, f.starts = make([]*running, planNodes), make([]string, planNodes), make([]int, planNodes)
	for i := range planNodes {
		f.wires = append(f.wires, wiretest.New(t, f.database))
		f.launch(t, i)
	}
	f.awaitReady(t)
	return f
}

// awaitReady waits until all nodes are ready. One that has ended because the database crashed while it started
// is started again, as a supervisor does.
func (f *fleet) awaitReady(t *testing.T) {
	t.Helper()
	for i, n := range f.nodes {
		select {
		case <-n.ready:
		case <-n.ended:
		case <-time.After(limit):
		}
		if isClosed(n.ended) && !isClosed(n.ready) {
			f.ended(f.names[i])
			f.launch(t, i)
		}
		f.nodes[i].awaitReady(t)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ended records that a process has ended.
func (f *fleet) ended(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.observed.lifetimes {
		if l := &f.observed.lifetimes[i]; l.node == name {
			l.ended = now()
		}
	}
}

// launch starts the process of a node, and does not wait for it.
func (f *fleet) launch(t *testing.T, i int) {
	t.Helper()
	f.starts[i]++
	name, born := fmt.Sprintf("n%d.%d", i, f.starts[i]), now()
	args := append([]string{
		"run", "-c", f.file, "--set", "storage.url=" + f.wires[i].URL(), "--set", "node.name=" + name,
		"--set", "handlers.witness.env.NODE=" + name, "--set", "task_log.path=" + t.TempDir(),
	}, f.elsewhere.settings(i)...)
	n := launch(t, "127.0.0.1:0", []string{"PATH=" + os.Getenv("PATH")}, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[i], f.names[i], f.logs[name] = n, name, n.log
	f.observed.lifetimes = append(f.observed.lifetimes, lifetime{name, born, never})
}

func now() int64 { return time.Now().UnixMicro() }

// do begins a fault, or ends it.
func (f *fleet) do(t *testing.T, what fault) {
	t.Helper()
	n := f.nodes[what.node] // written by this goroutine only
	switch what.kind {
	case "kill":
		f.kill(t, what, n)
	case "freeze", "freeze of the node alone":
		f.freeze(t, what, n)
	case "cut":
		if what.ends {
			f.wires[what.node].Heal()
		} else {
			f.wires[what.node].Stall()
		}
	case cutOff, "crash of the coordinator":
		f.elsewhere.do(t, what)
	default:
		act := f.server.Crash
		if what.ends {
			act = f.server.Restart
		}
		if err := act(); err != nil {
			t.Fatal(err)
		}
	}
}

// kill kills the process of a node, or starts the next one.
func (f *fleet) kill(t *testing.T, what fault, n *running) {
	t.Helper()
	if what.ends {
		f.launch(t, what.node)
		return
	}
	if isClosed(n.ended) && isClosed(n.ready) {
		t.Errorf("a node has ended: %v", n.cmd.ProcessState)
	}
	family := n.descendants()
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-n.ended
	goneAll(t, family)
	f.ended(f.names[what.node])
}

// freeze stops the processes of a node, or only that of the node itself, or lets them go on.
func (f *fleet) freeze(t *testing.T, what fault, n *running) {
	t.Helper()
	if !what.ends {
		pids := []int{n.cmd.Process.Pid}
		f.mu.Lock()
		f.stops = append(f.stops, stop{f.names[what.node], now(), never})
		f.mu.Unlock()
		if what.kind == "freeze" {
			pids = append(pids, n.descendants()...)
		}
		f.frozen[what.node] = pids
		signalAll(t, pids, syscall.SIGSTOP)
		return
	}
	signalAll(t, f.frozen[what.node], syscall.SIGCONT)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.stops {
		if s := &f.stops[i]; s.node == f.names[what.node] && s.until == never {
			s.until = now()
		}
	}
}

func signalAll(t *testing.T, pids []int, s syscall.Signal) {
	t.Helper()
	for _, pid := range pids {
		send := func() error { return syscall.Kill(pid, s) }
		if s == syscall.SIGSTOP {
			send = func() error { return freeze.Stop(pid) }
		}
		if err := send(); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// client returns a client of a node, and the name of its process; nil if it is not ready.
func (f *fleet) client(i int) (taskenginev1connect.TaskServiceClient, string) {
	f.mu.Lock()
	n, name := f.nodes[i], f.names[i]
	f.mu.Unlock()
	select {
	case <-n.ready:
		return taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+n.api), name
	default:
		return nil, ""
	}
}

// request has a node do something, one after the other until one does it.
func (f *fleet) request(ctx context.Context, do func(context.Context, taskenginev1connect.TaskServiceClient) error) error {
	for i := 0; ; i++ {
		if c, _ := f.client(i % planNodes); c != nil {
			short, cancel := context.WithTimeout(ctx, planLease)
			err := do(short, c)
			cancel()
			if err == nil || connect.CodeOf(err) == connect.CodeInvalidArgument {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// submit adds tasks. That is repeated until it is known that they are accepted.
func (f *fleet) submit(ctx context.Context, tasks []*taskenginev1.NewTask) error {
	err := f.request(ctx, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) error {
		_, err := c.Submit(ctx, &taskenginev1.SubmitRequest{Tasks: tasks})
		return err
	})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range tasks {
		f.accepted[one.GetId()] = "accepted"
	}
	return nil
}

// set changes a limit. That is repeated until it is known that it is changed.
func (f *fleet) set(ctx context.Context, q *taskenginev1.SetLimitRequest) error {
	s := setting{limit: strings.TrimSuffix(q.GetName()+"/"+q.GetValue(), "/"), most: int(q.GetMax()), asked: now()}
	s.paused, s.resumed = q.GetPaused(), q.Paused != nil && !q.GetPaused()
	err := f.request(ctx, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) error {
		res, err := c.SetLimit(ctx, q)
		s.version = res.GetLimit().GetSetting().GetVersion()
		return err
	})
	if err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	s.answered = now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observed.settings = append(f.observed.settings, s)
	return nil
}

// watch records which settings a node knows, until ctx ends.
func (f *fleet) watch(ctx context.Context, i int) {
	for ctx.Err() == nil {
		if c, name := f.client(i); c != nil {
			short, cancel := context.WithTimeout(ctx, planLease)
			res, err := c.ListLimits(short, &taskenginev1.ListLimitsRequest{})
			cancel()
			k := knowledge{at: now(), node: name}
			for _, l := range res.GetLimits() {
				k.version = max(k.version, l.GetSetting().GetVersion())
			}
			if err == nil {
				f.mu.Lock()
				f.observed.knowledge = append(f.observed.knowledge, k)
				f.mu.Unlock()
			}
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// stallsOver is how long a pause of this process must be to count as one of the machine.
const stallsOver = 100 * time.Millisecond

// watchMachine records when the machine stood still, until ctx ends.
func (f *fleet) watchMachine(ctx context.Context) {
	for ctx.Err() == nil {
		before := now()
		rest(ctx, 5*time.Millisecond)
		if after := now(); after-before > stallsOver.Microseconds() {
			f.mu.Lock()
			f.stops = append(f.stops, stop{"", before, after})
			f.mu.Unlock()
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// states sets the states of the accepted tasks, when no more are submitted, and reports whether all are done.
func (f *fleet) states(ctx context.Context) (isDone bool, err error) {
	err = f.request(ctx, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) error {
		q := &taskenginev1.ListRequest{Limit: 1000}
		isDone = true
		for {
			res, err := c.List(ctx, q)
			if err != nil {
				return err
			}
			for _, one := range res.GetTasks() {
				f.accepted[one.GetId()] = one.GetState()
				isDone = isDone && one.GetState() == "done"
			}
			if q.PageToken = res.GetNextPageToken(); q.PageToken == "" {
				return nil
			}
		}
	})
	return isDone, err
}

// goneAll waits until none of these processes lives.
func goneAll(t *testing.T, pids []int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		left := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return syscall.Kill(pid, 0) != nil })
		if len(left) == 0 {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("processes %v live on", left)
		}
	}
}
