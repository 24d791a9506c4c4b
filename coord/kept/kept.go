// Package kept follows a value that the nodes of a cluster keep in one of their settings.
package kept

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

const (
	// confirmEvery is how often a node reads the setting though nothing has notified it of a change: a notification may be late.
	confirmEvery = time.Second

	// readTimeout is how long one read may take.
	readTimeout = 5 * time.Second

	// retryAfter is how long a node rests after a read, or a watch, that failed.
	retryAfter = time.Second

	// lostAfter is for how long the settings have an older version than the node knows before it takes that: a server that is not
	// current catches up sooner, and a coordinator that was restored from a backup does not.
	lostAfter = 10 * time.Second

	// warnAfter is the age of the last read from which on the log says that changes may be missing.
	warnAfter = 15 * time.Second

	// changeTries is how often a change is tried while the value changes concurrently.
	changeTries = 20
)

// RefuseAfter is the age of the last read from which on a node does not rely on the value, because it cannot say how it was changed.
const RefuseAfter = 5 * time.Minute

// Errors of reads and changes.
var (
	ErrUnavailable = errors.New("the settings of the cluster cannot be reached")
	ErrBusy        = errors.New("the setting changes too often; try again")
)

// Config configures a [Value].
type Config[T any] struct {
	Settings coord.Config // of the cluster
	Name     string       // of the setting
	What     string       // names the value in errors and in the log, such as "the tokens of the cluster"
	Refused  string       // completes the line of the log that begins with What, from RefuseAfter on
	Log      *slog.Logger

	// Decode reads the value of the setting; nil if there is no setting.
	Decode func(text []byte) (T, error)
}

// Value is the value of a setting, as a node knows it.
type Value[T any] struct {
	config  Config[T]
	reading sync.Mutex                  // held while the setting is read and known is replaced
	older   time.Time                   // guarded by reading: since when the settings have an older version than known; zero: they have not
	known   atomic.Pointer[snapshot[T]] // replaced by read
	warned  bool                        // of the goroutine of Watch: the log says that the setting cannot be read
	refused bool                        // of the goroutine of Watch: the log says that the value is not relied on
}

// snapshot is the value at one moment.
type snapshot[T any] struct {
	version uint64 // of the setting
	value   T
	at      time.Time // when the read began, by the clock of the process
}

// Open reads the setting.
func Open[T any](ctx context.Context, c Config[T]) (*Value[T], error) {
	v := &Value[T]{config: c}
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	return v, nil
}

// Known returns the value, and the version of its setting. It does not block. The value must not be changed.
func (v *Value[T]) Known() (value T, version uint64) {
	known := v.known.Load()
	return known.value, known.version
}

// Age returns how long ago the read began by which this node knows the value.
func (v *Value[T]) Age() time.Duration { return time.Since(v.known.Load().at) }

// Watch follows the changes of the setting until ctx ends: within about a second while it can be read.
func (v *Value[T]) Watch(ctx context.Context) {
	changed := wakeup.New()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { v.notify(ctx, changed) })
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed.C():
		case <-tick.C:
		}
		for v.read(ctx) != nil && ctx.Err() == nil {
			v.warn(ctx)
			_ = wakeup.Sleep(ctx, retryAfter) // the loop looks at ctx
		}
		v.recovered()
	}
}

// notify sets changed after each change of the setting, until ctx ends.
func (v *Value[T]) notify(ctx context.Context, changed wakeup.Signal) {
	for ctx.Err() == nil {
		_ = v.config.Settings.Watch(ctx, v.config.Name, func([]coord.Setting) { changed.Set() }) // the next read returns the error
		_ = wakeup.Sleep(ctx, retryAfter)                                                        // the loop looks at ctx
	}
}

// read refreshes the snapshot from the settings.
func (v *Value[T]) read(ctx context.Context) error {
	v.reading.Lock()
	defer v.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	begin := time.Now()
	at, err := v.setting(ctx)
	if err != nil {
		return err
	}
	known := v.known.Load()
	switch {
	case known == nil || known.version < at.Version:
	case known.version == at.Version:
		v.older = time.Time{}
		v.known.Store(&snapshot[T]{known.version, known.value, begin})
		return nil
	case v.older.IsZero():
		v.older = begin
		return errOlder
	case begin.Sub(v.older) < lostAfter:
		return errOlder
	}
	v.older = time.Time{}
	value, err := v.config.Decode(at.Value)
	if err != nil {
		return err
	}
	v.known.Store(&snapshot[T]{at.Version, value, begin})
	return nil
}

var errOlder = errors.New("the settings have an older value than the node knows")

// warn says in the log that the setting cannot be read.
func (v *Value[T]) warn(ctx context.Context) {
	age := v.Age()
	if ctx.Err() != nil || age < warnAfter {
		return
	}
	if !v.warned {
		v.warned = true
		v.config.Log.Warn(v.config.What+" cannot be read: changes have no effect on this node", "since", age, "refused_after", RefuseAfter)
	}
	if !v.refused && age >= RefuseAfter {
		v.refused = true
		v.config.Log.Error(v.config.What+" "+v.config.Refused, "since", age)
	}
}

// recovered says in the log that the setting can be read again.
func (v *Value[T]) recovered() {
	if v.warned {
		v.warned, v.refused = false, false
		v.config.Log.Info(v.config.What + " can be read again")
	}
}

// Load reads the value, which this node may not know yet.
func (v *Value[T]) Load(ctx context.Context) (T, error) {
	value, _, err := v.load(ctx)
	return value, err
}

func (v *Value[T]) load(ctx context.Context) (value T, version uint64, err error) {
	at, err := v.setting(ctx)
	if err != nil {
		return value, 0, err
	}
	value, err = v.config.Decode(at.Value)
	return value, at.Version, err
}

// setting returns the setting.
func (v *Value[T]) setting(ctx context.Context) (coord.Setting, error) {
	all, err := v.config.Settings.Settings(ctx, v.config.Name)
	if err != nil {
		return coord.Setting{}, fmt.Errorf("%w: read %s: %w", ErrUnavailable, v.config.What, err)
	}
	for _, s := range all {
		if s.Scope == "" {
			return s, nil
		}
	}
	return coord.Setting{}, nil
}

// Change replaces the text of the setting by the result of fn, which may be called several times with a value of its own. This node
// knows the change when it returns. After [ErrUnavailable] the change may have been made.
func (v *Value[T]) Change(ctx context.Context, fn func(value T) (text []byte, err error)) error {
	for range changeTries {
		value, version, err := v.load(ctx)
		if err != nil {
			return err
		}
		begin := time.Now()
		text, err := fn(value)
		if err != nil {
			return err
		}
		next, err := v.config.Decode(text)
		if err != nil {
			return err
		}
		after, swapped, err := v.config.Settings.Swap(ctx, v.config.Name, "", version, text)
		if err != nil {
			return fmt.Errorf("%w: change %s, which may have been done: %w", ErrUnavailable, v.config.What, err)
		}
		if swapped {
			v.reading.Lock()
			v.known.Store(&snapshot[T]{after.Version, next, begin})
			v.reading.Unlock()
			return nil
		}
	}
	return ErrBusy
}
