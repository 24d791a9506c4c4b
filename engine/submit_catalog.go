package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// catalog has the configuration of types: it makes the rows of
// requests. It is read only, except for ids, which is safe for concurrent use, and for inForce, which adopt replaces.
type catalog struct {
	inForce    atomic.Pointer[ruleBook]
	storing    sync.Mutex // held while the rules of types are written to the store
	contents   contents
	unknown    *typeInfo                     // for the others
	layouts    map[string][]string           // by type, the sources of the values of groups
	placements map[string]*placement         // of the types that have values with nodes of their own
	heaviest   map[string]heaviest           // by limit
	isDivided  bool                          // several databases hold the tasks
	leaves     bool                          // likewise, and requests of a transaction of one may leave for another
	search     map[string][]filter.Attribute // by type; only types with some
	ids        *task.IDs
	isStale    atomic.Bool      // the store may have lost the rules of types
	now        func() time.Time // Engine.Now
	isCut      func() bool      // reports whether other nodes may not know of this one, or may rely on attributes that it does not declare

	withdrawnBy atomic.Pointer[task.ID] // the incarnation of this node that has withdrawn the attributes that it does not declare
}

// ruleBook has the values of the catalog that an engine can take over while it runs. It is read only.
type ruleBook struct {
	policies  policy.Set
	types     map[string]*typeInfo // configured types
	isUnique  bool                 // a type has rules for taken keys
	mayBeLate bool                 // a type says how late a request may be
}

func newRuleBook(set policy.Set, layouts map[string][]string, values map[string]valueFunc) *ruleBook {
	b := &ruleBook{policies: set, types: make(map[string]*typeInfo)}
	for name, p := range set.Types {
		b.types[name] = newTypeInfo(set, p, layouts[name], values)
		b.isUnique = b.isUnique || b.types[name].isUnique
		b.mayBeLate = b.mayBeLate || p.MaxLateness > 0
	}
	return b
}

func (c *catalog) rules() *ruleBook { return c.inForce.Load() }

// policies returns the policies that are in force.
func (c *catalog) policies() policy.Set { return c.rules().policies }

// newCatalog returns the catalog of a configuration. nodes are the nodes that use the store.
func newCatalog(ctx context.Context, c *Config, by contents, now func() time.Time, nodes *cluster.Cluster) (*catalog, error) {
	layouts, err := layouts(ctx, c, nodes.IsShared())
	if err != nil {
		return nil, err
	}
	k := &catalog{
		contents: by, unknown: newTypeInfo(policy.Set{}, policy.DefaultType(), nil, nil),
		layouts: layouts, heaviest: heaviestOf(c.Policies), ids: task.NewIDs(seed()), now: now,
	}
	k.isCut = func() bool {
		by := k.withdrawnBy.Load()
		return nodes.IsShared() && (!nodes.IsMember() || by == nil || *by != nodes.Incarnation())
	}
	k.placements = placements(c, layouts)
	_, k.isDivided = c.Store.(storage.ShardBound)
	k.inForce.Store(newRuleBook(c.Policies, layouts, c.Values))
	k.search = make(map[string][]filter.Attribute)
	for name, p := range c.Policies.Types {
		of, err := by.attributesOf(name, p.Search)
		if err != nil {
			return nil, err
		}
		if len(of) > 0 {
			k.search[name] = of
		}
	}
	return k, nil
}

// typeInfo is the part of a type's configuration that Submit uses.
type typeInfo struct {
	priority   uint8
	maxPayload int
	rules      *task.Rules
	timeless   *task.Rules // likewise, by which no request is late
	inherits   bool
	isUnique   bool       // it has rules for taken keys
	by         [][]string // the places that make the key of a request that has none
	keys       []keyed    // sources of the values of a group
	values     int        // number of values that a group must have for the limits of the type
	shardedBy  string     // the limit with the value that determines the shard, unless an ordering key does; "" if there is none
	shardKey   int        // the index of that value in keys
}

func newTypeInfo(set policy.Set, p policy.Type, layout []string, values map[string]valueFunc) *typeInfo {
	info := &typeInfo{priority: p.Priority, maxPayload: p.MaxPayload, rules: p.Rules(), inherits: p.Ordering.Inherit, isUnique: !p.Unique.IsDefault(), keys: keyedBy(layout, set.Keyed(p))}
	timeless := *info.rules
	timeless.MaxLateness, info.timeless = 0, &timeless
	for _, place := range p.Unique.Places() {
		info.by = append(info.by, strings.Split(place, "."))
	}
	for i, k := range info.keys {
		if k.limit != "" {
			info.values = i + 1
		}
	}
	info.keys = compute(info.keys, info.values, values)
	if n, ok := set.ShardedBy(p); ok {
		l := set.Keyed(p)[n]
		info.shardedBy, info.shardKey = l.Name, slices.Index(layout, l.Per)
	}
	return info
}

// infoOf returns the configuration of a type for Submit.
func (c *catalog) infoOf(typ string) *typeInfo {
	if info, ok := c.rules().types[typ]; ok {
		return info
	}
	return c.unknown
}

// policyOf returns the policy of a type, which is the default if the type is not configured.
func (c *catalog) policyOf(typ string) policy.Type {
	if p, ok := c.policies().Types[typ]; ok {
		return p
	}
	return policy.DefaultType()
}

// mayBeLost says that the store may have lost the rules of types: it did not answer, or the node lost its lease. It may have
// been restored from a backup without them, and other programs add tasks by them.
func (c *catalog) mayBeLost() { c.isStale.Store(true) }

// storeAgain stores the rules of types if the store may have lost them. After an error the next call tries it again, and while other nodes may rely
// on attributes that this one does not declare, a later one does.
func (c *catalog) storeAgain(ctx context.Context, in storage.Store) error {
	if c.isCut() || !c.isStale.Swap(false) {
		return nil
	}
	err := c.store(ctx, in)
	if err != nil {
		c.isStale.Store(true)
	}
	return err
}

// store stores the rules of this node's types in a store to which other programs may add
// tasks. If the rules of nodes differ, the rules of the node that was opened last hold.
func (c *catalog) store(ctx context.Context, in storage.Store) error {
	store, ok := in.(storage.Ruled)
	if !ok {
		return nil
	}
	c.storing.Lock()
	defer c.storing.Unlock()
	set := c.policies()
	rules := []storage.TypeRules{rulesOf("", policy.Set{}, policy.DefaultType(), nil)}
	for _, name := range slices.Sorted(maps.Keys(set.Types)) {
		rules = append(rules, rulesOf(name, set, set.Types[name], c.layouts[name]))
	}
	if err := store.SetRules(ctx, rules...); err != nil {
		return fmt.Errorf("engine: store the rules of the types: %w", err)
	}
	return nil
}

func rulesOf(name string, set policy.Set, p policy.Type, layout []string) storage.TypeRules {
	r := storage.TypeRules{
		Type: name, Priority: p.Priority, MaxPayload: p.MaxPayload,
		QueueTimeout: p.Timeout.Queue, TotalTimeout: p.Timeout.Total,
		MaxResult: p.ResultLimit(), KeepDone: p.Retention.Done, MaxLateness: p.MaxLateness, Remember: p.Unique.Remembers(), Inherits: p.Ordering.Inherit, Searched: len(p.Search) > 0,
	}
	if !p.Unique.IsDefault() {
		r.Unique = storage.UniqueRules{OnConflict: p.Unique.OnConflict.String(), Window: p.Unique.Window, By: newTypeInfo(set, p, nil, nil).by}
	}
	for _, k := range keyedBy(layout, set.Keyed(p)) {
		if k.path[0] == computed {
			break // the group is too short then, and a node computes it when the turn of the task comes
		}
		r.Keyed = append(r.Keyed, storage.Keyed{Limit: k.limit, Path: k.path})
	}
	return r
}
