package config

import (
	"fmt"
	"maps"
	"slices"

	records "github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/timeslice"
)

// Slices is a source that polls platforms by slices of time. Each slice becomes a task.
type Slices struct {
	PlatformSlices
	Platforms   []string
	PerPlatform map[string]PlatformSlices
}

// PlatformSlices are settings of a source of slices, or of one of its platforms.
type PlatformSlices struct {
	Values  timeslice.Values
	Threads Threads
	Nodes   policy.Nodes
}

// Threads is how many slices of a platform may run at once. 0 is no limit. Nil is not set.
type Threads struct{ Node, Cluster *int }

// mostPlatforms is how many platforms a source can name. More can be added while nodes run.
const mostPlatforms = 10_000

var slicesTable = &object{what: "slices", fields: append(
	platformFields(func(s *Slices) *PlatformSlices { return &s.PlatformSlices }),
	field{name: "platforms", doc: "The names of the platforms. More can be added while nodes run; `[]` leaves all to that, see [many platforms](slices.md#many-platforms).", otherwise: "one platform, with the name of the source", is: sequence[string]{is: words("the name of a platform", timeslice.CheckName), single: true, most: mostPlatforms}, at: in(func(s *Slices) *[]string { return &s.Platforms })},
	field{name: "per_platform", doc: "Settings of single platforms, which count for more than those of the source.", is: table[PlatformSlices]{of: "platforms", keys: timeslice.CheckName, likely: "PLATFORM", is: overrideTable}, at: in(func(s *Slices) *map[string]PlatformSlices { return &s.PerPlatform })},
)}

var overrideTable = &object{what: "a platform", fields: platformFields(func(s *PlatformSlices) *PlatformSlices { return s })}

// platformFields returns the fields that a source and a platform have.
func platformFields[T any](of func(*T) *PlatformSlices) []field {
	at := func(to func(*timeslice.Values) any) func(any) any {
		return func(object any) any { return to(&of(object.(*T)).Values) }
	}
	usual := timeslice.DefaultSettings()
	return []field{
		{name: "interval", doc: "The length of a slice, at least a second.", otherwise: "required for each platform", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.Interval })},
		{name: "start", doc: "The start of the first slice. It counts for platforms without a slice.", otherwise: "the moment at which the platform is added, rounded down to a multiple of `interval`", is: pointerTo(moment()), at: at(func(v *timeslice.Values) any { return &v.Start })},
		{name: "overlap", doc: "By how much earlier than its slice a task fetches. Shorter than `interval`.", otherwise: "`0s`", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.Overlap })},
		{name: "lag", doc: "How long after its end a slice is due, for platforms that show what has happened late.", otherwise: "`0s`", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.Lag })},
		{name: "spread", doc: "Each platform has a delay of its own, shorter than this, by which its slices are due later: so platforms with the same slices are not due at once. At most `interval`.", otherwise: "a millisecond for each of `platforms`, at most a tenth of `interval`", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.Spread })},
		{name: "catch_up_interval", doc: "The longest slice while the platform is behind.", otherwise: "`interval`", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.CatchUp })},
		{name: "least_part", doc: "A slice that its handler splits is divided into parts no shorter than this. A part that the handler splits although it cannot be divided becomes a task in the state `error`.", otherwise: fmt.Sprintf("`%v`, or a tenth of `interval` if that is shorter", usual.LeastPart), is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.LeastPart })},
		{name: "timeout", doc: "How long an attempt to fetch a slice may take, beside `timeout` of the type.", otherwise: "that of the type", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.Timeout })},
		{name: "retries", doc: "The number of attempts after the first one. After the last one that fails, the slice is a task in the state `error`.", otherwise: fmt.Sprintf("`%d`", usual.Retries), is: pointerTo(whole[int](0, timeslice.MostRetries, "a number")), at: at(func(v *timeslice.Values) any { return &v.Retries })},
		{name: "retry_interval", doc: "The delay before the first retry. The second one comes after twice that, the third one after three times, and so on.", otherwise: fmt.Sprintf("`%v`", usual.RetryInterval), is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.RetryInterval })},
		{name: "order", doc: "Whether slices of a platform may run at the same time, or one after the other, the earliest first.", otherwise: "`parallel`", is: pointerTo(oneOf(nil, option[timeslice.Sequence]{"parallel", timeslice.Parallel}, option[timeslice.Sequence]{"in_order", timeslice.InOrder})), at: at(func(v *timeslice.Values) any { return &v.Order })},
		{name: "max_open", doc: "How many slices of a platform wait or run at most. No more are made until some have ended.", otherwise: fmt.Sprintf("`%d`", usual.MaxOpen), is: pointerTo(whole[int](1, timeslice.MostOpen, "a number")), at: at(func(v *timeslice.Values) any { return &v.MaxOpen })},
		{name: "breaker", doc: "After how many failed slices in a row the platform makes no more, until one of them is done. 0 is never. If slices run in order, any other number is 1.", otherwise: fmt.Sprintf("`%d`", usual.Breaker), is: pointerTo(whole[int](0, timeslice.MostOpen, "a number")), at: at(func(v *timeslice.Values) any { return &v.Breaker })},
		{name: "probe", doc: "How long after that a failed slice is tried again. The delay doubles up to sixteen times as long.", otherwise: "`1m`", is: spanOf(), at: at(func(v *timeslice.Values) any { return &v.Probe })},
		{name: "threads", doc: "How many slices of a platform may run at once.", is: threadsTable, at: func(object any) any { return &of(object.(*T)).Threads }},
		{name: "nodes", doc: "The nodes that may run the slices: labels with their values, as for `nodes` of a type.", otherwise: "all nodes", is: nodesOf{nodesTable}, at: func(object any) any { return &of(object.(*T)).Nodes }},
	}
}

var threadsTable = &object{what: "threads", fields: []field{
	{name: "node", doc: "On each node. 0 is no limit.", otherwise: "without limit", is: pointerTo(whole[int](0, timeslice.MostThreads, "a number")), at: in(func(t *Threads) **int { return &t.Node })},
	{name: "cluster", doc: "On all nodes together. 0 is no limit.", otherwise: "without limit", is: pointerTo(whole[int](0, timeslice.MostThreads, "a number")), at: in(func(t *Threads) **int { return &t.Cluster })},
}}

// sliced makes a source one of slices.
func sliced(source any) any {
	s := source.(*Source)
	s.Slices = new(Slices)
	return s.Slices
}

// spanOf is a duration of slices that may be unset.
func spanOf() value[*timeslice.Span] {
	d := period(aDuration, false)
	return value[*timeslice.Span]{want: d.want, json: d.json, parse: func(t text) (*timeslice.Span, error) {
		read, err := d.parse(t)
		if err != nil {
			return nil, err
		}
		return new(timeslice.Span(read)), nil
	}}
}

// pointerTo is a value that may be unset.
func pointerTo[T any](of value[T]) value[*T] {
	return value[*T]{want: of.want, json: of.json, parse: func(t text) (*T, error) {
		read, err := of.parse(t)
		if err != nil {
			return nil, err
		}
		return &read, nil
	}}
}

// timeSlices returns the source as package timeslice has it.
func (s *Source) timeSlices() timeslice.Definition {
	d := timeslice.Definition{Type: s.Type, Values: s.Slices.values(), Platforms: make(map[string]timeslice.Values)}
	for _, name := range s.Slices.names(s.Name) {
		own := s.Slices.PerPlatform[name]
		d.Platforms[name] = own.values()
	}
	return d
}

// values returns the values with the threads.
func (p *PlatformSlices) values() timeslice.Values {
	v := p.Values
	v.NodeThreads, v.Threads = p.Threads.Node, p.Threads.Cluster
	return v
}

// names returns the platforms of the source with a name.
func (s *Slices) names(source string) []string {
	if s.Platforms == nil {
		return []string{source}
	}
	return s.Platforms
}

// TimeSlices returns the sources of slices, by name.
func (c *Config) TimeSlices() map[string]timeslice.Definition {
	all := make(map[string]timeslice.Definition)
	for name, s := range c.Sources {
		if s.Slices != nil {
			all[name] = s.timeSlices()
		}
	}
	return all
}

// MayFetch reports whether a node of the configuration, with its labels, may run the slices of a platform.
func (c *Config) MayFetch(source, platform, node string) bool {
	s, ok := c.Sources[source]
	if !ok || s.Slices == nil {
		return false
	}
	nodes := s.Slices.Nodes
	if own := s.Slices.PerPlatform[platform].Nodes; len(own) > 0 {
		nodes = own
	}
	return nodes.Match(node, c.Coordination.Labels)
}

// limitSlices adds what holds for slices to the policies of their types: their limits, and that each has its own number of retries.
func (c *Config) limitSlices(set *policy.Set) {
	for name, s := range c.Sources {
		t, ok := set.Types[s.Type]
		if s.Slices == nil || !ok {
			continue
		}
		t.Retry.Max = policy.Forever
		node, cluster := s.Slices.limits(name)
		t.Limits = slices.Clone(t.Limits)
		for _, limit := range []policy.Limit{cluster, node} {
			set.Limits[limit.Name] = limit // also if it limits nothing: it may be set while nodes run
			t.Limits = append(t.Limits, limit.Name)
		}
		set.Types[s.Type] = t
	}
}

// limits returns the limits of the threads of a source with a name.
func (s *Slices) limits(source string) (node, cluster policy.Limit) {
	nodeName, clusterName := timeslice.ThreadsLimits(source)
	node = policy.Limit{Name: nodeName, Per: "headers." + timeslice.Header, Max: orZero(s.Threads.Node), Overrides: make(map[string]int)}
	cluster = policy.Limit{
		Name: clusterName, Per: node.Per, Max: orZero(s.Threads.Cluster), Cluster: true, Overrides: make(map[string]int), Nodes: make(map[string]policy.Nodes),
	}
	if len(s.Nodes) > 0 {
		cluster.Nodes[source+"/*"] = s.Nodes
	}
	for platform, own := range s.PerPlatform {
		value := source + "/" + platform
		if n := own.Threads.Node; n != nil {
			node.Overrides[value] = *n
		}
		if n := own.Threads.Cluster; n != nil {
			cluster.Overrides[value] = *n
		}
		if len(own.Nodes) > 0 {
			cluster.Nodes[value] = own.Nodes
		}
	}
	return node, cluster
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// recordKeys are the keys of a source that are about records.
var recordKeys = []string{"type_from", "key", "ordering_key", "payload", "headers", "filter"}

// slices refuses a source of slices that cannot be. types has the sources of slices by the types of their tasks.
func (d *decoder) slices(name string, s *Source, types map[string]string) {
	written := d.cfg.tree.find("sources").child(name)
	at := func(keys ...string) []string { return append([]string{"sources", name}, keys...) }
	for _, key := range recordKeys {
		if written.child(key) != nil && (key != "payload" || s.Payload != records.DefaultPayload) {
			d.conflict(at(key), "slices are no records; remove "+key)
		}
	}
	if written.child("type") == nil {
		d.conflict(at(), "there has to be a type of the tasks of the slices; write type")
		return
	}
	d.typeOf(s.Type, at("type"))
	if other, taken := types[s.Type]; taken {
		d.conflict(at("type"), fmt.Sprintf("source %s has the type %s, too; give each source of slices its own", other, s.Type))
	}
	types[s.Type] = name
	if t, ok := d.cfg.Types[s.Type]; ok && t.Retry.Max != policy.DefaultType().Retry.Max {
		d.conflict([]string{"types", s.Type, "retry", "max"}, fmt.Sprintf("source %s says how often its slices are retried; remove max", name))
	}
	known := s.Slices.names(name)
	for _, platform := range slices.Sorted(maps.Keys(s.Slices.PerPlatform)) {
		if !slices.Contains(known, platform) {
			d.conflict(at("slices", "per_platform", platform), fmt.Sprintf("there is no platform %q%s", platform, orNearest(platform, known)))
		}
	}
	if d.cfg.Coordination.IsExternal() && d.cfg.Storage.Driver == Memory {
		d.conflict(at("slices"), "nodes with tasks in memory do not coordinate, and would each fetch all slices; use another storage driver, or remove coordination")
	}
	if d.isWrongWithin(written.value) {
		return // that was reported
	}
	definition := s.timeSlices()
	if err := definition.Check(name); err != nil {
		d.conflict(at("slices"), err.Error())
	}
	node, cluster := timeslice.ThreadsLimits(name)
	for _, limit := range []string{node, cluster} {
		if _, taken := d.cfg.Limits[limit]; taken {
			d.conflict([]string{"limits", limit}, fmt.Sprintf("the threads of source %s are a limit of this name; give this one another", name))
		}
	}
}
