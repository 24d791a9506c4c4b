package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// A node that is to be killed is a process of its own. It shares the records with the
// process that kills it, in a file that both have in memory: what a process has written
// there survives it, to the last instruction.

// orders are what the node is told.
type orders struct {
	Scenario *Scenario `json:"scenario"`
	Rate     float64   `json:"rate"`
	Base     int64     `json:"base"` // Unix nanoseconds
	Begin    int64     `json:"begin"`
	Measured int64     `json:"measured"`
	Tag      uint16    `json:"tag"`
	Tasks    int       `json:"tasks"`
}

// Files in the folder of a node.
const (
	ordersFile  = "orders.json"
	recordsFile = "records"
	storeFolder = "store"
)

// nodeStart is how long a node may take to be ready the first time.
const nodeStart = time.Second

// killed is once with a node that is killed again and again.
func (r *runner) killed(ctx context.Context, rate float64) (runs map[int]result.Run, err error) {
	if len(r.o.Node) == 0 {
		return nil, errors.New("Options.Node names no program that calls bench.ServeNode")
	}
	dir, err := os.MkdirTemp(r.dir, "node-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, storeFolder), 0o700); err != nil {
		return nil, err
	}
	ses := newSession(r.s, r.o, rate, time.Now())
	ses.begin = ses.records.since(time.Now().Add(nodeStart))
	ses.measured = ses.begin + int64(r.s.WarmUp)
	unmap, err := ses.entrust(dir)
	if err != nil {
		return nil, err
	}
	defer unmap()
	var pid atomic.Int64
	pids := func() []int {
		if p := int(pid.Load()); p != 0 {
			return []int{p}
		}
		return nil
	}
	m := startMeter(ses.records.time(ses.measured), pointEvery, pids)
	telling, stop := context.WithCancel(ctx)
	told := r.follow(telling, ses)
	err = ses.liveAndDie(ctx, dir, &pid)
	stop()
	<-told
	m.finish()
	if err != nil {
		return nil, err
	}
	store, err := r.o.OpenStore(filepath.Join(dir, storeFolder))
	if err != nil {
		return nil, fmt.Errorf("open the store of the node: %w", err)
	}
	r.tell(ses, Verifying, 0)
	check, err := ses.verify(ctx, store)
	if err := errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	cost := *m.cost
	cost.Allocated = 0 // what is known is what this process allocated, and not the node
	cost.StoreSize = size(filepath.Join(dir, storeFolder))
	runs = r.figures(ses, m, cost, check)
	for i, run := range runs {
		for _, at := range ses.kills {
			run.Restart = max(run.Restart, ses.firstStart(at))
		}
		run.Notes = append(run.Notes, "the node was killed "+result.Counted(len(ses.kills), "time"))
		runs[i] = run
	}
	return runs, nil
}

// entrust makes the records of all tasks to come, in memory that the node will share, and
// writes its orders.
func (ses *session) entrust(dir string) (unmap func(), err error) {
	all, err := ses.arrivals()
	if err != nil {
		return nil, err
	}
	unmap, err = ses.records.mapped(filepath.Join(dir, recordsFile), len(all))
	if err != nil {
		return nil, fmt.Errorf("share the records with the node: %w", err)
	}
	for _, a := range all {
		ses.register(ses.begin+int64(a.at), a.draw)
	}
	text, err := json.Marshal(orders{
		Scenario: ses.s, Rate: ses.rate, Base: ses.records.base.UnixNano(), Begin: ses.begin, Measured: ses.measured,
		Tag: ses.records.tag, Tasks: len(all),
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ordersFile), text, 0o600)
	}
	if err != nil {
		unmap()
		return nil, fmt.Errorf("write the orders of the node: %w", err)
	}
	return unmap, nil
}

// arrivals returns everything that is to come.
func (ses *session) arrivals() ([]arrival, error) {
	sched, err := newSchedule(ses.s, ses.rate)
	if err != nil {
		return nil, err
	}
	var all []arrival
	for a, ok := sched.next(); ok; a, ok = sched.next() {
		all = append(all, a)
	}
	return all, nil
}

// liveAndDie starts the node and kills it until the load is over; then it lets it finish.
func (ses *session) liveAndDie(ctx context.Context, dir string, pid *atomic.Int64) error {
	end := ses.records.time(ses.measured + int64(ses.s.Duration))
	nextKill := ses.records.time(ses.begin)
	for {
		nextKill = nextKill.Add(ses.s.Faults.KillNode)
		until, kill := nextKill, true
		if !nextKill.Before(end) {
			until, kill = end.Add(2*ses.o.patience()), false
		}
		ended, err := ses.live(ctx, dir, until, pid)
		switch {
		case err != nil:
			return err
		case ended:
			return nil
		case !kill:
			return fmt.Errorf("the node did not end within %v after the load", 2*ses.o.patience())
		}
		ses.noteKill()
	}
}

// live runs the node until it ends by itself, or kills it.
func (ses *session) live(ctx context.Context, dir string, until time.Time, pid *atomic.Int64) (ended bool, err error) {
	args := append(append([]string{}, ses.o.Node[1:]...), dir)
	cmd := exec.CommandContext(ctx, ses.o.Node[0], args...)
	cmd.Env = append(os.Environ(), ses.o.NodeEnv...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start the node: %w", err)
	}
	pid.Store(int64(cmd.Process.Pid))
	defer pid.Store(0)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	wait, stop := context.WithDeadline(ctx, until)
	defer stop()
	select {
	case err := <-done:
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			return false, fmt.Errorf("the node has failed: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return true, nil
	case <-wait.Done():
	}
	_ = cmd.Process.Kill() // if it is gone already, so much the better
	<-done
	return false, context.Cause(ctx)
}

// ServeNode is the node that [Options.Node] names: it does the rest of a load, in the
// folder that was appended to the command, and returns when all tasks have ended. o
// needs what the handlers and the store need.
func ServeNode(ctx context.Context, dir string, o Options) (err error) {
	text, err := os.ReadFile(filepath.Join(dir, ordersFile))
	if err != nil {
		return fmt.Errorf("read the orders; a node of the benchmark is started by `taskengine bench run`: %w", err)
	}
	var ord orders
	if err := json.Unmarshal(text, &ord); err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	ses := newSession(ord.Scenario, &o, ord.Rate, time.Unix(0, ord.Base))
	ses.begin, ses.measured, ses.records.tag = ord.Begin, ord.Measured, ord.Tag
	unmap, err := ses.records.mapped(filepath.Join(dir, recordsFile), ord.Tasks)
	if err != nil {
		return fmt.Errorf("share the records: %w", err)
	}
	defer unmap()
	ses.records.n.Store(int64(ord.Tasks))
	all, err := ses.arrivals()
	if err != nil {
		return err
	}
	if len(all) != ord.Tasks {
		return fmt.Errorf("the load has %s here, and %d in the orders", result.Counted(len(all), "task"), ord.Tasks)
	}
	store, err := o.OpenStore(filepath.Join(dir, storeFolder))
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := ses.open(ctx, store, dir); err != nil {
		return err
	}
	return errors.Join(ses.rest(ctx, all), ses.close(ctx))
}

// rest submits what is not acknowledged yet, and waits for everything.
func (ses *session) rest(ctx context.Context, all []arrival) error {
	i := 0
	err := ses.paced(ctx, func() (submit, bool) {
		for ; i < len(all); i++ {
			if rec := ses.records.at(int64(i)); rec.acked == 0 {
				i++
				return submit{rec, all[i-1].draw}, true
			}
		}
		return submit{}, false
	})
	if err != nil {
		return err
	}
	for f := range ses.s.Tasks {
		for t := range ses.s.Tasks[f].Types {
			if err := ses.engine.WaitType(ctx, ses.s.Tasks[f].typeName(t)); err != nil {
				return fmt.Errorf("wait for the tasks: %w", err)
			}
		}
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if len(ses.errNotes)+len(ses.overNotes) > 0 {
		return fmt.Errorf("%v %v", ses.errNotes, ses.overNotes)
	}
	return nil
}
