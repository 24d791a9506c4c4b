// Package duty drives machines of package alert: it observes, stores their states and sends
// notifications. A [Duty] is responsible for one scope, such as the alerts about one node.
//
// A duty stores a state before it sends the notifications of that state. It sends them even if the store
// fails: then a crash may lose a notification, or send it twice with different IDs.
package duty

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/target"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Config configures a Duty.
type Config struct {
	Store    *Store
	Silences *Store // a second source of silences, beside Store; nil for none
	Machine  alert.Config
	Targets  map[string]target.Target // the targets of Machine, by name

	// Look observes. It returns soon after ctx has ended. o has the stored states and silences; storeErr
	// says why they could not be read, or the state not be written, and then o is empty.
	Look   func(ctx context.Context, o Overview, storeErr error) alert.Look
	IsNode bool             // the scope is this node: the store records that it runs, until Leave
	Every  time.Duration    // how often it looks
	Now    func() time.Time // the clock of the tasks
	Log    *slog.Logger
}

// Duty is responsible for the alerts of one scope. Run may be called again after it has returned.
type Duty struct {
	config  Config
	machine *alert.Machine
	part    part

	results  chan result
	sends    sync.WaitGroup
	sending  int             // goroutines that send
	silences []alert.Silence // of Config.Silences, as they were last read
	storeErr error           // of the last read or write of the state; nil if it succeeded
	failures map[string]*ratelog.Limiter
	storeLog ratelog.Limiter
	bounds   ratelog.Limiter
}

// result is the outcome of sending a notification.
type result struct {
	n   alert.Notification
	err error
}

// New returns a duty. Its scope is that of the machine.
func New(c Config) *Duty {
	d := &Duty{config: c, part: part{store: c.Store, scope: c.Machine.Scope}, results: make(chan result, len(c.Targets)), failures: map[string]*ratelog.Limiter{}}
	for name := range c.Targets {
		d.failures[name] = new(ratelog.Limiter)
	}
	return d
}

// Run observes and sends until ctx ends, or until another node has taken over: then it returns an error.
// The next Run repeats a notification that was being sent when ctx ended.
func (d *Duty) Run(ctx context.Context) error {
	sending, end := outlive(ctx)
	defer end()
	defer d.stopSending(ctx)
	d.begin(ctx)
	var looked time.Time
	for ctx.Err() == nil {
		if now := time.Now(); looked.IsZero() || now.Sub(looked) >= d.config.Every {
			looked = now
			d.look(ctx)
		}
		if err := d.round(ctx, sending); err != nil {
			return err
		}
		now := d.config.Now()
		wait := d.config.Every - time.Since(looked)
		if wake := d.machine.Wake(now); !wake.IsZero() {
			wait = min(wait, wake.Sub(now))
		}
		d.rest(ctx, max(wait, 10*time.Millisecond))
	}
	return ctx.Err()
}

// patience is how long targets may take to answer after the context of a duty ends.
const patience = 3 * time.Second

// outlive returns a context that ends some time after ctx, or with end.
func outlive(ctx context.Context) (longer context.Context, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })
	return longer, func() { stop(); cancel() }
}

// begin makes the machine and restores its stored state. If the store cannot be read, the machine starts
// empty: the failing store may itself be worth an alert.
func (d *Duty) begin(ctx context.Context) {
	d.machine = alert.New(d.config.Machine)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	state, err := d.part.load(ctx)
	if d.stored(err); err == nil {
		d.machine.Restore(state)
	}
	if d.part.running = d.config.IsNode; d.config.IsNode {
		d.machine.Unsaved()
	}
}

// look reads the silences and observes.
func (d *Duty) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	failed := d.storeErr // of a write since the last look
	o, err := d.config.Store.Read(bounded)
	cancel()
	if d.stored(err); err == nil {
		d.machine.Silence(append(o.Silences, d.otherSilences(ctx)...))
		err = failed
	}
	d.machine.Look(d.config.Look(ctx, o, err))
	if n := d.machine.Dropped(); n > 0 && d.bounds.Allow() {
		d.config.Log.Warn("there are too many alerts; the others are left out", "alerts", alert.MaxAlerts, "others", n)
	}
}

// otherSilences returns the silences of Config.Silences, or the last ones read if that store fails.
func (d *Duty) otherSilences(ctx context.Context) []alert.Silence {
	if d.config.Silences == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if o, err := d.config.Silences.Read(ctx); err == nil {
		d.silences = o.Silences
	}
	return d.silences
}

// round makes the due notifications, stores the state and starts to send them.
func (d *Duty) round(ctx, sending context.Context) error {
	now := d.config.Now()
	d.machine.Tick(now)
	if err := d.save(ctx); err != nil {
		return err
	}
	for _, n := range d.machine.Next(now) {
		d.sending++
		d.sends.Go(func() { d.results <- result{n, d.send(sending, n)} })
	}
	return nil
}

// save stores the state if it has changed. Its error says that another node has taken over.
func (d *Duty) save(ctx context.Context) error {
	state, changed := d.machine.Save()
	if !changed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := d.part.save(ctx, state)
	if errors.Is(err, errTaken) {
		return err
	}
	if d.stored(err); err != nil {
		d.machine.Unsaved()
	}
	return nil
}

// stored notes whether the state could be read or written.
func (d *Duty) stored(err error) {
	if d.storeErr = err; err != nil && !errors.Is(err, context.Canceled) && d.storeLog.Allow() {
		d.config.Log.Warn("the state of alerts cannot be stored; notifications are sent all the same, and a restart may repeat or lose some", "scope", d.part.scope, "error", err)
	}
}

// send sends a notification.
func (d *Duty) send(ctx context.Context, n alert.Notification) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return d.config.Targets[n.Target].Send(ctx, n)
}

// rest waits for a time, or for the outcome of sending.
func (d *Duty) rest(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case r := <-d.results:
		d.sent(r)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sent passes on the outcome of sending.
func (d *Duty) sent(r result) {
	d.sending--
	if r.err == nil {
		d.machine.Sent(r.n.ID)
		return
	}
	switch gaveUp := d.machine.Failed(d.config.Now(), r.n.ID); {
	case gaveUp:
		d.config.Log.Error("a notification of alerts was not accepted for too long and is given up", "target", r.n.Target, "id", r.n.ID, "summary", r.n.Summary, "error", r.err)
	case d.failures[r.n.Target].Allow():
		d.config.Log.Warn("a target of alerts did not accept a notification; it is sent again", "target", r.n.Target, "id", r.n.ID, "summary", r.n.Summary, "error", r.err)
	}
}

// stopSending waits for the notifications that are being sent, and stores which were accepted.
func (d *Duty) stopSending(ctx context.Context) {
	for d.sending > 0 {
		d.sent(<-d.results)
	}
	d.sends.Wait()
	_ = d.save(context.WithoutCancel(ctx)) // if that fails, the next Run sends them again
}

// Last sends notifications of facts at the end of a node, for example that its store failed for good. It
// sends once, without waiting for the times of rules, and returns when that is over or ctx ends. It is
// called after Run has returned.
func (d *Duty) Last(ctx context.Context, l alert.Look) {
	if d.machine == nil {
		d.begin(ctx)
	}
	d.machine.Hurry()
	d.machine.Look(l)
	if err := d.round(ctx, ctx); err != nil {
		return
	}
	d.stopSending(ctx)
}

// Leave stores that the node has ended as it should. It is called after Run has returned.
func (d *Duty) Leave(ctx context.Context) {
	if d.machine == nil { // Run was not called, and an earlier process may have ended otherwise
		d.begin(ctx)
	}
	d.part.running = false
	d.machine.Unsaved()
	_ = d.save(ctx) // if that fails, the others take the node for dead, and say so
}

// adopt resolves the alerts of a dead node and sends its notifications, until ctx ends or none is left.
// running is the mark to store: the node has ended without Leave.
func (d *Duty) adopt(ctx context.Context, running bool) error {
	sending, end := outlive(ctx)
	defer end()
	d.begin(ctx)
	d.part.running = running
	defer d.stopSending(ctx)
	if d.storeErr != nil {
		return d.storeErr
	}
	for ctx.Err() == nil {
		now := d.config.Now()
		d.machine.Look(alert.Look{At: now, Whole: alert.Kinds()})
		if err := d.round(ctx, sending); err != nil {
			return err
		}
		if d.machine.Queued() == 0 && len(d.machine.Alerts()) == 0 {
			return d.part.save(ctx, alert.State{})
		}
		d.rest(ctx, time.Second)
	}
	return ctx.Err()
}

// Keep runs a duty until ctx ends: again and again after it was interrupted.
func (d *Duty) Keep(ctx context.Context) {
	for {
		err := d.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		d.config.Log.Warn("the duty of alerts was interrupted and begins again", "scope", d.part.scope, "error", err)
		if wakeup.Sleep(ctx, d.config.Every) != nil {
			return
		}
	}
}

// How Adopt treats nodes that are gone.
const (
	adoptEvery  = time.Minute
	forgetAfter = 24 * time.Hour
)

// Adopt does the duty of dead nodes: it resolves their alerts and sends their remaining notifications. live
// returns the names of the live nodes, and false if they are not known. One node of a cluster runs Adopt,
// until ctx ends. A node counts as dead if it is missing in two looks, a minute apart. Adopt forgets after a
// day that a node ended without Leave.
func Adopt(ctx context.Context, c Config, live func() ([]string, bool)) error {
	c.IsNode = false
	gone := map[string]time.Time{} // since when
	for {
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		o, err := c.Store.Read(bounded)
		cancel()
		if names, known := live(); err == nil && known {
			gone = adoptAll(ctx, c, &o, o.abandoned(names), gone)
		}
		if err := wakeup.Sleep(ctx, adoptEvery); err != nil {
			return err
		}
	}
}

// adoptAll does the duty for the given scopes that were gone before, and returns since when all of them are.
func adoptAll(ctx context.Context, c Config, o *Overview, scopes []string, was map[string]time.Time) map[string]time.Time {
	gone := map[string]time.Time{}
	for _, scope := range scopes {
		since, isOld := was[scope]
		if !isOld {
			gone[scope] = time.Now()
			continue
		}
		gone[scope] = since
		state := o.States[scope]
		running := slices.Contains(o.Running, strings.TrimPrefix(scope, nodeScope)) && time.Since(since) < forgetAfter
		if running && len(state.Alerts)+len(state.Queue) == 0 {
			continue
		}
		c.Machine.Scope = scope
		bounded, cancel := context.WithTimeout(ctx, adoptEvery)
		err := New(c).adopt(bounded, running)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("the remaining alerts of a node that is gone could not be sent yet", "scope", scope, "error", err)
		}
	}
	return gone
}
