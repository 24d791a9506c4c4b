package slicer

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/timeslice"
)

// threadsTries is how often a limit is changed that others change at the same time.
const threadsTries = 20

// setThreads changes the limits of a source as some values say, which are those of one of its platforms, SOURCE/PLATFORM, or of the
// whole source if of is "". Other values have no effect. Limits hold on all nodes when it returns, or as soon as these learn of them.
// It may be repeated.
func setThreads(ctx context.Context, e *engine.Engine, source, of string, values map[string]string, by By) error {
	node, cluster := timeslice.ThreadsLimits(source)
	for _, one := range [...]struct{ key, limit string }{{timeslice.NodeThreads, node}, {timeslice.ClusterThreads, cluster}} {
		text, ok := values[one.key]
		if !ok {
			continue
		}
		var most *int // as configured
		if text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			most = &n
		}
		if err := setMax(ctx, e, one.limit, of, most, by); err != nil {
			return err
		}
	}
	return nil
}

// setMax changes the number of slots of a limit, or of one of its values. It keeps what else an operator has set of it.
func setMax(ctx context.Context, e *engine.Engine, limit, value string, most *int, by By) error {
	var err error
	for range threadsTries {
		var all []engine.LimitSetting
		if all, err = e.LimitSettings(ctx); err != nil {
			return err
		}
		now := engine.LimitSetting{Limit: limit, Value: value}
		if i := slices.IndexFunc(all, func(s engine.LimitSetting) bool { return s.Limit == limit && s.Value == value }); i >= 0 {
			now = all[i]
		}
		version := now.Version
		now.Max, now.By = most, by.Who
		if _, err = e.SetLimit(ctx, now, &version); !errors.Is(err, engine.ErrStale) {
			break
		}
	}
	if errors.Is(err, engine.ErrNotSet) {
		return nil
	}
	return err
}
