// Package hooks posts the changes of tasks that a node makes to URLs.
//
// A hook reads events from a cursor on, posts them, and then stores the cursor: in the store of the tasks, for each node
// and hook. So events are posted at least once, also after a crash, as far as the events are: what was missed is read from the store of the
// tasks, see [engine.Engine.ChangedSince]. While a URL does not accept events, none are kept for it: later ones are missed, and read
// from the store, too.
package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/alert/target"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	mostEvents  = 100              // of one request
	leastPause  = time.Second      // after a request that failed
	mostPause   = 5 * time.Minute  // likewise
	cursorEvery = 30 * time.Second // how often a cursor is stored while there are no events
)

// Config is the configuration of hooks.
type Config struct {
	Hooks  map[string]config.Hook
	Node   string
	Engine *engine.Engine
	Store  storage.Store
	Log    *slog.Logger
}

// Hooks are the hooks of a node that runs.
type Hooks struct {
	all  map[string]*hook
	stop context.CancelFunc
	work sync.WaitGroup
}

// Start starts the hooks.
func Start(c Config) *Hooks {
	ctx, stop := context.WithCancel(context.Background())
	hs := &Hooks{all: make(map[string]*hook), stop: stop}
	for name, h := range c.Hooks {
		one := &hook{Config: c, name: name, giveUp: h.GiveUp, to: target.NewWebhook(h.URL.Reveal(), headersOf(h), h.Timeout)}
		var err error
		if one.where, err = filter.Parse(h.Where, c.Engine.Now()); err != nil {
			c.Log.Error("a hook has no filter, and posts nothing", "hook", name, "error", err) // the configuration was checked
			continue
		}
		one.settings, _ = c.Store.(storage.Settings)
		hs.all[name] = one
		hs.work.Go(func() { one.run(ctx) })
	}
	return hs
}

func headersOf(h config.Hook) map[string]string {
	plain := make(map[string]string, len(h.Headers))
	for k, t := range h.Headers {
		plain[k] = t.Reveal()
	}
	return plain
}

// Stop ends the hooks, and waits until they have stored their cursors.
func (hs *Hooks) Stop() {
	hs.stop()
	hs.work.Wait()
}

// Counts returns the counts by hook.
func (hs *Hooks) Counts() map[string]server.HookCounts {
	all := make(map[string]server.HookCounts)
	for name, h := range hs.all {
		c := server.HookCounts{Posted: h.posted.Load(), Failed: h.failed.Load(), Lost: h.lost.Load()}
		if since := h.waitsSince.Load(); since != 0 {
			c.Behind = time.Since(time.Unix(0, since))
		}
		all[name] = c
	}
	return all
}

// hook posts the events of one URL. It belongs to its goroutine, but for the counts.
type hook struct {
	Config
	name     string
	where    filter.Filter
	giveUp   time.Duration
	to       *target.Webhook
	settings storage.Settings // nil: the store keeps none, and each start begins at the present

	at       engine.EventCursor
	storedAt time.Time

	posted, failed, lost atomic.Uint64
	waitsSince           atomic.Int64 // when the request was made first that is not accepted; 0 if there is none
}

// setting returns the name of the setting that has the cursor. A copy of the store leaves it out.
func (h *hook) setting() string { return storage.LiveSettings + "hooks/" + h.Node + "/" + h.name }

func (h *hook) run(ctx context.Context) {
	for h.begin(ctx) != nil {
		if wakeup.Sleep(ctx, leastPause) != nil {
			return
		}
	}
	for ctx.Err() == nil {
		err := h.next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.Log.Warn("a hook cannot read events; it tries again", "hook", h.name, "error", err)
			_ = wakeup.Sleep(ctx, leastPause)
		}
	}
}

// begin reads the cursor; without one it stores that of the present, so that what follows is posted, also after a crash.
func (h *hook) begin(ctx context.Context) error {
	if h.settings == nil {
		h.at = engine.EventCursor{At: h.Engine.Now()}
		return nil
	}
	stored, err := h.settings.Setting(ctx, h.setting())
	if err == nil && stored != nil {
		h.at, err = engine.ParseEventCursor(string(stored))
	} else if err == nil {
		h.at = engine.EventCursor{At: h.Engine.Now()}
		err = h.store(ctx)
	}
	if err != nil && ctx.Err() == nil {
		h.Log.Warn("a hook cannot read its cursor; it tries again", "hook", h.name, "error", err)
	}
	return err
}

// store stores the cursor.
func (h *hook) store(ctx context.Context) error {
	h.storedAt = time.Now()
	if h.settings == nil {
		return nil
	}
	return h.settings.SetSetting(ctx, h.setting(), []byte(h.at.String()))
}

// next posts the next events, or those that a gap has left to the store.
func (h *hook) next(ctx context.Context) error {
	poll, cancel := context.WithTimeout(ctx, cursorEvery)
	defer cancel()
	page, err := h.Engine.Events(poll, h.where, h.at)
	if err != nil {
		return err
	}
	if page.Gap != nil {
		err := h.Engine.ChangedSince(ctx, h.where, page.Gap.From, func(ts []*task.Task) error {
			events := make([]event, len(ts))
			for i, t := range ts {
				events[i] = eventOf(t, t.UpdatedAt, true)
			}
			return h.post(ctx, events)
		})
		if err != nil {
			return err
		}
	}
	events := make([]event, len(page.Events))
	for i, e := range page.Events {
		events[i] = eventOf(e.Task, e.At, false)
	}
	if err := h.post(ctx, events); err != nil {
		return err
	}
	if h.at = page.Next; page.Gap == nil && len(events) == 0 && time.Since(h.storedAt) < cursorEvery {
		return nil
	}
	return h.store(ctx)
}

// request is the body of a request.
type request struct {
	ID     string  `json:"id"` // the same for the same events
	Hook   string  `json:"hook"`
	Node   string  `json:"node"`
	Events []event `json:"events"`
}

// event is a change of a task.
type event struct {
	ID        string    `json:"id"` // the same for the same change
	At        time.Time `json:"at"`
	FromStore bool      `json:"from_store"` // it was found after a gap: earlier changes may be missing
	Task      taskInfo  `json:"task"`       // after it
}

// taskInfo is a task without payload and result.
type taskInfo struct {
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	State       string            `json:"state"`
	Version     uint64            `json:"version"`
	Attempt     uint32            `json:"attempt"`
	Key         string            `json:"key,omitempty"`
	OrderingKey string            `json:"ordering_key,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Error       string            `json:"error,omitempty"`
	Node        string            `json:"node,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
}

func eventOf(t *task.Task, at time.Time, fromStore bool) event {
	return event{ID: fmt.Sprintf("%v/%d", t.ID, t.Version), At: at.UTC(), FromStore: fromStore, Task: taskInfo{
		ID: t.ID.String(), Type: t.Type, State: t.State.String(), Version: t.Version, Attempt: t.Attempt, Key: t.Key, OrderingKey: t.OrderingKey,
		Headers: t.Headers, Error: t.LastError, Node: t.Node, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}}
}

// post posts events until they are accepted or given up. It returns an error only if ctx ends.
func (h *hook) post(ctx context.Context, events []event) error {
	for len(events) > 0 {
		n := min(len(events), mostEvents)
		if err := h.postOne(ctx, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

func (h *hook) postOne(ctx context.Context, events []event) error {
	sum := sha256.New()
	for _, e := range events {
		fmt.Fprintln(sum, e.ID)
	}
	r := request{ID: fmt.Sprintf("%x", sum.Sum(nil)[:16]), Hook: h.name, Node: h.Node, Events: events}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	begin := time.Now()
	h.waitsSince.Store(begin.UnixNano())
	defer h.waitsSince.Store(0)
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := h.to.Post(ctx, r.ID, body)
		switch {
		case err == nil:
			h.posted.Add(uint64(len(events)))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		h.failed.Add(1)
		if h.giveUp > 0 && time.Since(begin) >= h.giveUp {
			h.lost.Add(uint64(len(events)))
			h.Log.Error("events are lost: their hook did not accept them", "hook", h.name, "events", len(events), "tried_for", time.Since(begin), "error", err)
			return nil
		}
		h.Log.Warn("a hook did not accept events; they are sent again", "hook", h.name, "events", len(events), "in", pause, "error", err)
		if err := wakeup.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
