package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
)

// rewatchAfter is how long a node rests before it watches the settings again.
const rewatchAfter = time.Second

// settingsOf returns the default settings of a node: in its store, or in memory if the store cannot keep
// any. isShared says whether other nodes may use the store.
func settingsOf(store storage.Store, isShared bool, alone *local.Node) coord.Config {
	several, ok := store.(interface {
		storage.Settings
		storage.Shared
	})
	if ok && isShared {
		return stored.NewShared(several)
	}
	if s, ok := store.(storage.Settings); ok {
		return stored.New(s)
	}
	return alone
}

// Settings returns the settings that the nodes of the cluster share, or that the store of a node alone keeps.
func (k *Cluster) Settings() coord.Config { return k.settings }

// LoadLimits passes the settings of limits to [Engine.Limit]. It must return before Run is called.
func (k *Cluster) LoadLimits(ctx context.Context) error {
	all, err := k.Limits(ctx)
	if err != nil {
		return err
	}
	k.engine.Limit(all)
	return nil
}

// limitsLoop passes the settings of limits to [Engine.Limit] after every change. If they cannot be
// watched, the node goes on with the known settings.
func (k *Cluster) limitsLoop(ctx context.Context) {
	for {
		err := k.settings.Watch(ctx, coord.LimitsSetting, k.engine.Limit)
		if ctx.Err() != nil {
			return
		}
		if k.limitsLog.Allow() {
			k.log.Warn("the node cannot read the changes of limits; it goes on with the settings that it knows and tries again", "error", err)
		}
		if wakeup.Sleep(ctx, rewatchAfter) != nil {
			return
		}
	}
}

// Limits returns the settings of limits, sorted by scope.
func (k *Cluster) Limits(ctx context.Context) ([]coord.Setting, error) {
	all, err := k.settings.Settings(ctx, coord.LimitsSetting)
	if err != nil {
		return nil, fmt.Errorf("read how limits were changed: %w", err)
	}
	return all, nil
}

// SwapLimit changes a setting of limits, see [coord.Config]. The nodes learn of it by their watches.
func (k *Cluster) SwapLimit(ctx context.Context, scope string, version uint64, value []byte) (now coord.Setting, swapped bool, err error) {
	now, swapped, err = k.settings.Swap(ctx, coord.LimitsSetting, scope, version, value)
	if err != nil {
		err = fmt.Errorf("keep how a limit is changed: %w", err)
	}
	return now, swapped, err
}

// GrantAlone returns the semaphore and rates for limits of the cluster of a node alone. The store keeps the
// used tokens of rates, if it can keep settings; if not, GrantAlone returns nil, and they are limits of the
// node.
func GrantAlone(store storage.Store) (coord.Semaphore, coord.Rates) {
	if settings, ok := store.(storage.Settings); ok {
		return local.New(), stored.NewRates(settings)
	}
	return nil, nil
}
