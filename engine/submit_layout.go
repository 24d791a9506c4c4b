package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// layoutsSetting is the setting that holds the layout of each type: the sources of the values of
// its groups, in order. A limit finds its value by the source that its per names, independent of
// the order of limits in the configuration.
const layoutsSetting = "limit-values"

// noValue stands in a layout for a value that is always empty. It is the first value of a type
// that had no values, so that the length of a group distinguishes older groups, and it replaces a
// value that no limit uses any more.
const noValue = "headers."

// layouts returns the layouts of the types of a configuration, and stores them. A layout only
// grows, because the groups of stored rows were packed by it. isShared says whether other nodes
// may use the store.
func layouts(ctx context.Context, c *Config, isShared bool) (map[string][]string, error) {
	needed := make(map[string][]string)
	for name := range c.Handlers {
		needed[name] = nil
	}
	for name, p := range c.Policies.Types {
		needed[name] = pers(c.Policies.Keyed(p))
		if len(needed[name]) > 0 && strings.HasPrefix(needed[name][0], computed+".") {
			// Without this a group that lacks the value, such as one that SQL made, were as long as one with it.
			needed[name] = append([]string{noValue}, needed[name]...)
		}
	}
	settings, ok := c.Store.(storage.Settings)
	if !ok {
		return needed, nil
	}
	for {
		stored, err := settings.Setting(ctx, layoutsSetting)
		var all map[string][]string
		if err == nil && stored != nil {
			err = json.Unmarshal(stored, &all)
		}
		if err != nil {
			return nil, fmt.Errorf("engine: read the sources of the values of limits: %w", err)
		}
		merged := mergeLayouts(all, needed, isShared)
		if maps.EqualFunc(all, merged, slices.Equal) && stored != nil {
			return merged, nil
		}
		value, err := json.Marshal(merged)
		if err != nil {
			return nil, err
		}
		swapped := true
		if shared, ok := c.Store.(storage.Shared); ok {
			swapped, err = shared.SwapSetting(ctx, layoutsSetting, stored, value)
		} else {
			err = settings.SetSetting(ctx, layoutsSetting, value)
		}
		if err != nil {
			return nil, fmt.Errorf("engine: store the sources of the values of limits: %w", err)
		}
		if swapped {
			return merged, nil
		}
	}
}

// mergeLayouts returns the stored layouts with the needed values that they lack appended. A value
// that is not needed any more becomes noValue, unless the store is shared: limits of other nodes
// may use it.
func mergeLayouts(stored, needed map[string][]string, isShared bool) map[string][]string {
	merged := maps.Clone(stored)
	if stored == nil {
		return maps.Clone(needed) // older versions packed the values in the order of the limits
	}
	for name, need := range needed {
		layout := append([]string{}, stored[name]...)
		if !isShared {
			for i, per := range layout {
				if !slices.Contains(need, per) {
					layout[i] = noValue
				}
			}
		}
		if len(layout) == 0 && len(need) > 0 {
			layout = append(layout, noValue)
		}
		for _, per := range need {
			if !slices.Contains(layout, per) {
				layout = append(layout, per)
			}
		}
		merged[name] = layout
	}
	return merged
}

func pers(limits []policy.Limit) []string {
	out := make([]string, len(limits))
	for i, l := range limits {
		out[i] = l.Per
	}
	return out
}

// keyedBy returns the sources of the values of a group, with the limits that use them: "" if no
// limit does.
func keyedBy(layout []string, limits []policy.Limit) []keyed {
	var out []keyed
	for _, per := range layout {
		k := keyed{path: strings.Split(per, ".")}
		if i := slices.IndexFunc(limits, func(l policy.Limit) bool { return l.Per == per }); i >= 0 {
			k.limit = limits[i].Name
		}
		out = append(out, k)
	}
	return out
}

// regroup reports whether the group of t was packed when its type had fewer values, and returns
// the group that t has with the values of today. missing names the value that t lacks, if it lacks one:
// it counts as empty. A task keeps its group if its payload cannot be decoded.
func (c *catalog) regroup(t *task.Task) (group string, missing error, isOld bool) {
	info, ok := c.rules().types[t.Type]
	if !ok || task.GroupLen(t.Group) >= info.values {
		return "", nil, false
	}
	payload, err := c.contents.open(t.Type, codec.Payload, t.Payload)
	if err != nil {
		return "", nil, false // its handler does not get it either: the outcome is decided there
	}
	if group, missing = groupOf(info.keys, &Request{Payload: payload, Key: t.Key, OrderingKey: t.OrderingKey, Headers: t.Headers}); missing != nil {
		group = task.GroupOf(make([]string, len(info.keys))...)
	}
	return group, missing, true
}

// shardOf returns the shard of t. If t has no ID it generates one: in the shard that the key
// binds t to, if it does, otherwise in one of shards. nil stands for all shards.
func (c *catalog) shardOf(t *task.Task, shards *task.Shards) uint16 {
	shard, bound := task.BoundShard(t.Type, t.Key, t.OrderingKey)
	given := !t.ID.IsZero()
	switch now := c.now(); {
	case given && t.OrderingKey != "":
		return shard // independent of the ID
	case given:
	case bound:
		t.ID = c.ids.NextIn(now, shard)
	default:
		if t.ID = c.ids.Next(now); !shards.Has(t.ID.Shard()) {
			some := shards.List()
			t.ID = c.ids.NextIn(now, some[int(t.ID[14])%len(some)]) // this byte is random
		}
	}
	return t.ID.Shard()
}

// Errors of requests that several databases cannot accept: a database does not know the rows of
// the others.
var (
	errKeyInTx       = errors.New("a task that is added in a transaction has a key only together with an ordering key where several databases keep the tasks")
	errOrderAway     = fmt.Errorf("the ordering key: %w", storage.ErrElsewhere)
	errNoShards      = errors.New("the database of the transaction holds no shards: move some to it first")
	errOneOfSeveral  = errors.New("the store holds only a part of the tasks")
	errIDOfElsewhere = fmt.Errorf("the id: %w", storage.ErrElsewhere)
)

// checkPlace returns an error for a request that several databases cannot accept.
func (c *catalog) checkPlace(r *Request, shards *task.Shards) error {
	if !c.isDivided {
		return nil
	}
	shard, bound := task.BoundShard(r.Type, r.Key, r.OrderingKey)
	switch {
	case bound && !r.ID.IsZero() && r.ID.Shard() != shard:
		return fmt.Errorf("the id is of shard %d, and the key or ordering key of %d: where several databases keep the tasks, leave the id out or choose one that fits", r.ID.Shard(), shard)
	case shards == nil, c.leaves && !shards.IsEmpty():
		return nil
	case r.Key != "" && r.OrderingKey == "":
		return errKeyInTx
	case shards.IsEmpty():
		return errNoShards
	case bound && !shards.Has(shard):
		return errOrderAway
	case !r.ID.IsZero() && !shards.Has(r.ID.Shard()):
		return errIDOfElsewhere
	}
	return nil
}

// checkHome returns an error if s is one of several databases that hold the tasks together.
func checkHome(ctx context.Context, s storage.Store) error {
	owner, ok := s.(storage.ShardOwner)
	if !ok {
		return nil
	}
	held, err := owner.Holdings(ctx)
	if err == nil && held.Owned != task.AllShards() {
		err = fmt.Errorf("%w: the shards %s, and others hold the rest; open all of them by package storage/sharded", errOneOfSeveral, &held.Owned)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}
