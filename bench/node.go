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

// A node that is killed is a process of its own. It shares the records with the process that kills it,
// in a file that both have mapped: the writes of the node there survive it, up to its last
// instruction.

// nodeConfig describes the repetition for the node.
type nodeConfig struct {
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
	configFile  = "node.json"
	recordsFile = "records"
	storeFolder = "store"
)

// nodeStart is the time that a node has to become ready the first time.
const nodeStart = time.Second

// onceKilled is once with a node that is killed at intervals.
func (r *runner) onceKilled(ctx context.Context, rate float64) (runs map[int]result.Run, err error) {
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
	rep := newRepetition(r.s, r.o, rate, time.Now())
	rep.begin = rep.records.since(time.Now().Add(nodeStart))
	rep.measured = rep.begin + int64(r.s.WarmUp)
	unmap, err := rep.prepareNode(dir)
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
	m := startMeter(rep.records.time(rep.measured), pointEvery, pids)
	following, stop := context.WithCancel(ctx)
	followed := r.follow(following, rep)
	err = rep.runAndKill(ctx, dir, &pid)
	stop()
	<-followed
	m.finish()
	if err != nil {
		return nil, err
	}
	store, err := r.o.OpenStore(filepath.Join(dir, storeFolder))
	if err != nil {
		return nil, fmt.Errorf("open the store of the node: %w", err)
	}
	r.tell(rep, Verifying, 0)
	check, err := rep.verify(ctx, store)
	if err := errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	cost := *m.cost
	cost.Allocated = 0 // only the allocations of this process are known, not the ones of the node
	cost.StoreSize = size(filepath.Join(dir, storeFolder))
	runs = r.figures(rep, m, cost, check)
	for i, run := range runs {
		for _, at := range rep.kills {
			run.Restart = max(run.Restart, rep.firstStart(at))
		}
		run.Notes = append(run.Notes, "the node was killed "+result.Counted(len(rep.kills), "time"))
		runs[i] = run
	}
	return runs, nil
}

// prepareNode makes the records of all tasks, in a file that the node maps too, and writes the
// configuration of the node.
func (rep *repetition) prepareNode(dir string) (unmap func(), err error) {
	all, err := rep.arrivals()
	if err != nil {
		return nil, err
	}
	unmap, err = rep.records.mapped(filepath.Join(dir, recordsFile), len(all))
	if err != nil {
		return nil, fmt.Errorf("share the records with the node: %w", err)
	}
	for _, a := range all {
		rep.register(rep.begin+int64(a.at), a.draw)
	}
	text, err := json.Marshal(nodeConfig{
		Scenario: rep.s, Rate: rep.rate, Base: rep.records.base.UnixNano(), Begin: rep.begin, Measured: rep.measured,
		Tag: rep.records.tag, Tasks: len(all),
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, configFile), text, 0o600)
	}
	if err != nil {
		unmap()
		return nil, fmt.Errorf("write the configuration of the node: %w", err)
	}
	return unmap, nil
}

// arrivals returns all tasks of the load.
func (rep *repetition) arrivals() ([]arrival, error) {
	sched, err := newSchedule(rep.s, rep.rate)
	if err != nil {
		return nil, err
	}
	var all []arrival
	for a, ok := sched.next(); ok; a, ok = sched.next() {
		all = append(all, a)
	}
	return all, nil
}

// runAndKill starts the node and kills it, repeatedly, until the load is over. Then it waits for the
// node to finish.
func (rep *repetition) runAndKill(ctx context.Context, dir string, pid *atomic.Int64) error {
	end := rep.records.time(rep.measured + int64(rep.s.Duration))
	nextKill := rep.records.time(rep.begin)
	for {
		nextKill = nextKill.Add(rep.s.Faults.KillNode)
		until, kill := nextKill, true
		if !nextKill.Before(end) {
			until, kill = end.Add(2*rep.o.patience()), false
		}
		ended, err := rep.runNode(ctx, dir, until, pid)
		switch {
		case err != nil:
			return err
		case ended:
			return nil
		case !kill:
			return fmt.Errorf("the node did not end within %v after the load", 2*rep.o.patience())
		}
		rep.noteKill()
	}
}

// runNode runs the node until it ends by itself, and kills it at until.
func (rep *repetition) runNode(ctx context.Context, dir string, until time.Time, pid *atomic.Int64) (ended bool, err error) {
	args := append(append([]string{}, rep.o.Node[1:]...), dir)
	cmd := exec.CommandContext(ctx, rep.o.Node[0], args...)
	cmd.Env = append(os.Environ(), rep.o.NodeEnv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
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
			return false, fmt.Errorf("the node has failed: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return true, nil
	case <-wait.Done():
	}
	_ = cmd.Process.Kill() // it may have ended already
	<-done
	return false, context.Cause(ctx)
}

// ServeNode is the node that [Options.Node] names: it does the rest of a load in the folder dir, which
// was appended to the command, and returns when all tasks have ended. o must have the options of the
// handlers and the store.
func ServeNode(ctx context.Context, dir string, o Options) (err error) {
	text, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		return fmt.Errorf("read the configuration; a node of the benchmark is started by `taskengine bench run`: %w", err)
	}
	var config nodeConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	rep := newRepetition(config.Scenario, &o, config.Rate, time.Unix(0, config.Base))
	rep.begin, rep.measured, rep.records.tag = config.Begin, config.Measured, config.Tag
	unmap, err := rep.records.mapped(filepath.Join(dir, recordsFile), config.Tasks)
	if err != nil {
		return fmt.Errorf("share the records: %w", err)
	}
	defer unmap()
	rep.records.n.Store(int64(config.Tasks))
	all, err := rep.arrivals()
	if err != nil {
		return err
	}
	if len(all) != config.Tasks {
		return fmt.Errorf("the load has %s here, and %d in the configuration", result.Counted(len(all), "task"), config.Tasks)
	}
	store, err := o.OpenStore(filepath.Join(dir, storeFolder))
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := rep.open(ctx, store, dir); err != nil {
		return err
	}
	return errors.Join(rep.rest(ctx, all), rep.close(ctx))
}

// rest submits the tasks that are not acknowledged yet, and waits until all tasks have ended.
func (rep *repetition) rest(ctx context.Context, all []arrival) error {
	i := 0
	err := rep.paced(ctx, func() (submit, bool) {
		for ; i < len(all); i++ {
			if rec := rep.records.at(int64(i)); rec.acked == 0 {
				i++
				return submit{rec, all[i-1].draw}, true
			}
		}
		return submit{}, false
	})
	if err != nil {
		return err
	}
	for f := range rep.s.Tasks {
		for t := range rep.s.Tasks[f].Types {
			if err := rep.engine.WaitType(ctx, rep.s.Tasks[f].typeName(t)); err != nil {
				return fmt.Errorf("wait for the tasks: %w", err)
			}
		}
	}
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if len(rep.errNotes)+len(rep.overNotes) > 0 {
		return fmt.Errorf("%v %v", rep.errNotes, rep.overNotes)
	}
	return nil
}
