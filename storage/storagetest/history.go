package storagetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/taskengine/taskengine/task"
)

// historyCases check that the answers to concurrent callers are linearizable: they are the answers to
// calls one after the other, in an order that agrees with time. A change that was answered is
// visible to every later call, and no version is grabbed or ended twice.
var historyCases = []testCase{
	{"concurrent changes of a row are linearizable", func(f *fixture) {
		const workers, each = 8, 40
		rows := f.rows(3, task.Submitted, nil)
		f.put(rows...)
		var seen [3]atomic.Uint64 // the newest version that was returned by a call
		for i := range seen {
			seen[i].Store(1)
		}
		var mu sync.Mutex
		var history []porcupine.Operation
		begin := time.Now()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), 1))
				for range each {
					i := rng.IntN(len(rows))
					in := changed{row: i, version: seen[i].Load() - uint64(rng.IntN(2)), to: []task.State{task.Processing, task.Submitted, task.Waiting}[rng.IntN(3)]}
					call := time.Since(begin)
					got, err := f.Swap(f.ctx(), task.Change{Ref: task.Ref{ID: rows[i].ID, Version: in.version}, To: in.to, At: at(1), Owner: task.ID{byte(w)}})
					if err != nil {
						f.Error(err)
						return
					}
					out := answered{made: got[0] != nil}
					if out.made {
						out.version = got[0].Version
						seen[i].Store(out.version)
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: w, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(begin))})
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if !porcupine.CheckOperations(rowModel, history) {
			f.Errorf("no order of %d changes explains how they were answered", len(history))
		}
		// The check can fail: it detects one wrong answer.
		for i := range history {
			if out := history[i].Output.(answered); out.made {
				history[i].Output = answered{}
				break
			}
		}
		if porcupine.CheckOperations(rowModel, history) {
			f.Error("a change that was made and denied was not noticed")
		}
	}},
}

type changed struct {
	row     int
	version uint64
	to      task.State
}

type answered struct {
	made    bool
	version uint64
}

// rowModel is the behaviour of a row under changes one after the other.
var rowModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := make(map[int][]porcupine.Operation)
		for _, op := range history {
			row := op.Input.(changed).row
			by[row] = append(by[row], op)
		}
		var parts [][]porcupine.Operation
		for _, ops := range by {
			parts = append(parts, ops)
		}
		return parts
	},
	Init: func() any { return task.Task{Version: 1, State: task.Submitted} },
	Step: func(state, input, output any) (bool, any) {
		row, in, out := state.(task.Task), input.(changed), output.(answered)
		if row.Version != in.version || !row.State.CanBecome(in.to) {
			return !out.made, row
		}
		row.Version++
		row.State = in.to
		return out.made && out.version == row.Version, row
	},
	Equal: func(a, b any) bool {
		x, y := a.(task.Task), b.(task.Task)
		return x.Version == y.Version && x.State == y.State
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}
