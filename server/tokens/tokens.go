// Package tokens keeps tokens of the API in the settings of a cluster, so that they count on all of its nodes.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/wakeup"
)

const (
	// confirmEvery is how often a node reads the tokens though nothing has notified it of a change: a notification may be late.
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
)

// RefuseAfter is the age of the last read of the kept tokens from which on a node refuses them, because it cannot say
// which of them were revoked.
const RefuseAfter = 5 * time.Minute

// Config configures a [Kept].
type Config struct {
	Settings coord.Config          // where the tokens are kept
	File     func() *access.Tokens // the tokens of the file of the node
	Now      func() time.Time      // of the cluster
	Log      *slog.Logger
}

// Kept are the tokens that a cluster keeps, as a node knows them.
type Kept struct {
	Config
	reading sync.Mutex               // held while the settings are read and known is replaced
	older   time.Time                // guarded by reading: since when the settings have an older version than known; zero: they have not
	known   atomic.Pointer[snapshot] // replaced by read
	joined  atomic.Pointer[joint]    // a cache of Tokens
	warned  bool                     // of the goroutine of Watch: the log says that the tokens cannot be read
	refused bool                     // of the goroutine of Watch: the log says that they are refused
}

// snapshot has the kept tokens at one moment.
type snapshot struct {
	version uint64         // of the setting
	tokens  []access.Token // with one entry for each accepted secret
	at      time.Time      // when the read began, by the clock of the process
}

// joint has the tokens of a file and of a snapshot.
type joint struct {
	file, all *access.Tokens
	version   uint64
}

// Open reads the kept tokens.
func Open(ctx context.Context, c Config) (*Kept, error) {
	k := &Kept{Config: c}
	if err := k.read(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Tokens returns the tokens of the file and of the cluster. It does not block.
func (k *Kept) Tokens() *access.Tokens {
	file, known := k.File(), k.known.Load()
	if j := k.joined.Load(); j != nil && j.file == file && j.version == known.version {
		return j.all
	}
	j := &joint{file, access.Join(file, known.tokens, k.doubt, k.Now), known.version}
	k.joined.Store(j)
	return j.all
}

// Age returns how long ago the read began by which this node knows the kept tokens.
func (k *Kept) Age() time.Duration { return time.Since(k.known.Load().at) }

// doubt returns an error if the last read is too old.
func (k *Kept) doubt() error {
	if age := k.Age(); age >= RefuseAfter {
		return fmt.Errorf("it has not been able to read the tokens of the cluster for %v; tokens of the file of api.tokens are accepted", age.Round(time.Second))
	}
	return nil
}

// Watch follows the changes of the kept tokens until ctx ends: within about a second while the settings can be read.
func (k *Kept) Watch(ctx context.Context) {
	changed := wakeup.New()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { k.notify(ctx, changed) })
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed.C():
		case <-tick.C:
		}
		for k.read(ctx) != nil && ctx.Err() == nil {
			k.warn(ctx)
			_ = wakeup.Sleep(ctx, retryAfter) // the loop looks at ctx
		}
		k.recovered()
	}
}

// notify sets changed after each change of the setting, until ctx ends.
func (k *Kept) notify(ctx context.Context, changed wakeup.Signal) {
	for ctx.Err() == nil {
		_ = k.Settings.Watch(ctx, coord.TokensSetting, func([]coord.Setting) { changed.Set() }) // the next read returns the error
		_ = wakeup.Sleep(ctx, retryAfter)                                                       // the loop looks at ctx
	}
}

// read refreshes the snapshot from the settings.
func (k *Kept) read(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	begin := time.Now()
	at, err := k.setting(ctx)
	if err != nil {
		return err
	}
	known := k.known.Load()
	switch {
	case known == nil || known.version < at.Version:
	case known.version == at.Version:
		k.older = time.Time{}
		k.known.Store(&snapshot{known.version, known.tokens, begin})
		return nil
	case k.older.IsZero():
		k.older = begin
		return errOlder
	case begin.Sub(k.older) < lostAfter:
		return errOlder
	}
	k.older = time.Time{}
	records, err := decode(at.Value)
	if err != nil {
		return err
	}
	k.publish(records, at.Version, begin)
	return nil
}

var errOlder = errors.New("the settings have older tokens than the node knows")

// publish stores a snapshot of the records of a version. The settings had them at the time at, or later. The caller holds reading.
func (k *Kept) publish(records []Record, version uint64, at time.Time) {
	next := &snapshot{version: version, at: at}
	for _, r := range records {
		next.tokens = append(next.tokens, r.accepted()...)
	}
	k.known.Store(next)
}

// warn says in the log that the tokens cannot be read.
func (k *Kept) warn(ctx context.Context) {
	age := k.Age()
	if ctx.Err() != nil || age < warnAfter {
		return
	}
	if !k.warned {
		k.warned = true
		k.Log.Warn("the tokens of the cluster cannot be read: changes have no effect on this node", "since", age, "refused_after", RefuseAfter)
	}
	if !k.refused && age >= RefuseAfter {
		k.refused = true
		k.Log.Error("the tokens of the cluster cannot be read, and are refused now; tokens of the file are accepted", "since", age)
	}
}

// recovered says in the log that the tokens can be read again.
func (k *Kept) recovered() {
	if k.warned {
		k.warned, k.refused = false, false
		k.Log.Info("the tokens of the cluster can be read again")
	}
}

// load returns the kept tokens, and the version of their setting.
func (k *Kept) load(ctx context.Context) ([]Record, uint64, error) {
	at, err := k.setting(ctx)
	if err != nil {
		return nil, 0, err
	}
	all, err := decode(at.Value)
	return all, at.Version, err
}

// setting returns the setting that has the kept tokens.
func (k *Kept) setting(ctx context.Context) (coord.Setting, error) {
	all, err := k.Settings.Settings(ctx, coord.TokensSetting)
	if err != nil {
		return coord.Setting{}, fmt.Errorf("%w: read the tokens of the cluster: %w", ErrUnavailable, err)
	}
	for _, s := range all {
		if s.Scope == "" {
			return s, nil
		}
	}
	return coord.Setting{}, nil
}

// Errors of changes. An error that wraps none of them is about the request.
var (
	ErrUnknown     = errors.New("there is no such token")
	ErrTaken       = errors.New("the name is taken")
	ErrInvalid     = errors.New("no such token can be")
	ErrNotAllowed  = errors.New("the token cannot be changed so")
	ErrMore        = errors.New("a token cannot give more than it has")
	ErrBusy        = errors.New("the tokens change too often; try again")
	ErrUnavailable = errors.New("the tokens cannot be reached")
)
