package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// openStores are the stores of taskengine that are measured.
var openStores = []struct {
	name, module string
	open         func(dir string) (storage.Store, error)
}{
	{"pebble", "github.com/cockroachdb/pebble/v2", func(dir string) (storage.Store, error) {
		return pebble.Open(filepath.Join(dir, "tasks"), pebble.Options{})
	}},
	{"bolt", "go.etcd.io/bbolt", func(dir string) (storage.Store, error) {
		return bolt.Open(filepath.Join(dir, "tasks.db"), bolt.Options{})
	}},
}

// taskengineSubjects are each store with the settings that taskengine comes with, and with
// the best number of slots.
func taskengineSubjects() []subject {
	var out []subject
	for _, s := range openStores {
		about := func(settings string) result.Subject {
			return result.Subject{
				Name: "taskengine", Revision: revision(), Store: s.name, Settings: settings + "; a library in the measuring process",
				Durability: "every insert and every outcome is fsynced before it is acknowledged, in groups; what ended is kept for 7 days",
			}
		}
		open := func(ctx context.Context, e env, slots int) (peer, error) {
			store, err := s.open(e.dir)
			if err != nil {
				return nil, err
			}
			return openEngine(ctx, store, s.name+" "+moduleVersion(s.module), slots)
		}
		out = append(out, subject{
			Subject: about("slots as found"),
			short:   "taskengine-" + s.name + "-best", durable: true, main: true, batch: 1000, loaders: 2, singles: 512,
			variants: counts("slots", open, defaultSlots, 512, 1024),
		}, subject{
			Subject: about(fmt.Sprintf("defaults: %d slots", defaultSlots)),
			short:   "taskengine-" + s.name, durable: true, batch: 1000, loaders: 2, singles: 512,
			variants: only(func(ctx context.Context, e env) (peer, error) { return open(ctx, e, defaultSlots) }),
		})
	}
	return out
}

// defaultSlots is what the configuration of a node comes with.
const defaultSlots = 100

const taskType = "noop"

type enginePeer struct {
	store  storage.Store
	stores string // its name and version
	engine *engine.Engine
	handle atomic.Pointer[func([]byte)] // set before the type is resumed

	inserted, ended atomic.Int64 // durable
}

func openEngine(ctx context.Context, store storage.Store, stores string, slots int, more ...func(*engine.Config)) (*enginePeer, error) {
	p := &enginePeer{store: store, stores: stores}
	var err error
	config := engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: slots, Types: map[string]policy.Type{taskType: policy.DefaultType()}},
		Handlers: map[string]task.Handler{taskType: task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			(*p.handle.Load())(t.Payload)
			return nil, nil
		})},
		Observer: engine.Observer{
			Inserted: func(time.Time, *task.Task) { p.inserted.Add(1) },
			Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
				if t != nil && t.State == task.Done {
					p.ended.Add(1)
				}
			},
		},
	}
	for _, m := range more {
		m(&config)
	}
	p.engine, err = engine.Open(ctx, config)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := p.engine.Pause(ctx, taskType); err != nil { // until there are workers
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *enginePeer) insert(ctx context.Context, payloads ...[]byte) error {
	if len(payloads) == 1 {
		_, err := p.engine.Submit(ctx, engine.Request{Type: taskType, Payload: payloads[0]})
		return err
	}
	requests := make([]engine.Request, len(payloads))
	for i, b := range payloads {
		requests[i] = engine.Request{Type: taskType, Payload: b}
	}
	_, err := p.engine.Submit(ctx, requests...)
	return err
}

func (p *enginePeer) work(ctx context.Context, handle func([]byte)) error {
	p.handle.Store(&handle)
	return p.engine.Unpause(ctx, taskType)
}

func (p *enginePeer) version(context.Context) (queue, store string, err error) {
	return "of this repository", p.stores, nil
}

func (p *enginePeer) idle(ctx context.Context) (bool, error) {
	if p.ended.Load() < p.inserted.Load() {
		return false, nil
	}
	// What was observed is checked against the store, at the end.
	left, err := p.engine.Count(ctx, storage.Filter{States: []task.State{task.Waiting, task.Submitted, task.Processing}})
	if err != nil {
		return false, fmt.Errorf("taskengine: count what is left: %w", err)
	}
	return len(left) == 0, nil
}

func (p *enginePeer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(p.engine.Close(ctx), p.store.Close())
}
