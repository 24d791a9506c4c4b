package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// LimitScope says which tasks a limit counts. A node of a newer version may have others.
type LimitScope string

// The scopes of limits.
const (
	ScopeNode    LimitScope = "node"    // the tasks of each node by themselves
	ScopeCluster LimitScope = "cluster" // the tasks of all nodes together
)

// Rate says how many tasks may start in a time. The zero value is no limit.
type Rate struct {
	Count uint32        // 0: no limit
	Per   time.Duration // the time
	Burst uint32        // how many may start at once after a pause; 0: Count
}

// Limit is a limit as it is in force, as a whole or for one of its values.
type Limit struct {
	Name string

	// Value is a value, or a pattern of values: acme-* stands for all that begin with acme-. Empty is the limit as a whole,
	// which counts for the values that have nothing of their own.
	Value string

	// Configured is false if something is set for a limit that the configuration of the node does not have, or for values of a
	// limit that has none.
	Configured bool

	Of    string // the limit above it; empty if there is none
	Per   string // the place of the value in a task; empty: one limit for all tasks
	Scope LimitScope

	Max    uint32 // in force; 0: no limit
	Rate   Rate   // in force
	Paused bool   // tasks that count for it are not started

	ConfiguredMax  uint32 // of the configuration; 0: no limit
	ConfiguredRate Rate   // of the configuration

	// Setting is the setting of this name and value; nil if there is none.
	Setting *LimitSetting

	// Inherited are the settings of patterns that match the value, and of the limit as a whole, the most particular first. Each is
	// in force where a more particular one sets nothing.
	Inherited []LimitSetting

	// Used is how many of its slots the tasks of the node take; for the limit as a whole, over all values.
	Used int64

	// Held is how many permits the node has of these values, if the scope is the cluster.
	Held int64

	// Uses are Used and Held of each node that answered and has the limit, the asked one first, of [Client.Limits] in a cluster.
	Uses []LimitUse
}

// LimitUse is how much of a limit a node uses.
type LimitUse struct {
	Node string // its name
	Used int64  // as in [Limit]
	Held int64  // likewise
}

// LimitSetting is a setting of a limit, which replaces that of the configuration until it is unset.
type LimitSetting struct {
	Max     *uint32   // nil: not set; 0: no limit
	Rate    *Rate     // nil: not set; Count 0: no limit
	Paused  bool      // tasks that count for it are not started
	Version uint64    // grows with every change of any limit, also over UnsetLimit
	By      string    // the author: the name of the token, if there are tokens, and then LimitChange.By
	Node    string    // the node that took the request
	At      time.Time // when it was set
	Value   string    // the value, or pattern, that it is set for; empty: the limit as a whole
	Problem string    // why it has no effect on the node, or not the wanted one; empty if there is no problem
}

// LimitChange is a change of a limit. At least one of Max, Rate and Paused is given; the others stay as they are.
type LimitChange struct {
	Value  string  // a value, or a pattern of values, of the limit; empty: the limit as a whole
	Max    *uint32 // 0: no limit
	Rate   *Rate   // Count 0: no limit
	Paused *bool   // whether tasks that count for it are not started

	// IfVersion restricts the change to a setting at this version; 0 is no setting. If the setting is at another one, nothing is
	// changed, and the error wraps [ErrConflict]. nil: any version.
	IfVersion *uint64

	By string // the author; kept with the setting
}

// LimitUnset says which setting of a limit is removed. The zero value is that of the limit as a whole.
type LimitUnset struct {
	Value     string  // a value, or a pattern of values, of the limit; empty: the limit as a whole
	IfVersion *uint64 // as in [LimitChange]
	By        string  // the author; written to the log of the node
}

// Limits returns all limits in force, by name and value: the limits of the configuration, and each value, or pattern of
// values, with a setting. The uses of the nodes that did not answer are missing.
func (c *Client) Limits(ctx context.Context) (limits []*Limit, silent []SilentNode, err error) {
	res, err := call[taskenginev1.ListLimitsResponse](ctx, c, taskenginev1connect.TaskServiceListLimitsProcedure, &taskenginev1.ListLimitsRequest{}, true)
	if err != nil {
		return nil, nil, err
	}
	return all(res.GetLimits(), limitOf), all(res.GetSilent(), silentOf), nil
}

// Limit returns a limit, as a whole if value is empty, or for one of its values. The error wraps [ErrNotFound] if the configuration
// has no such limit.
func (c *Client) Limit(ctx context.Context, name, value string) (*Limit, error) {
	res, err := call[taskenginev1.GetLimitResponse](ctx, c, taskenginev1connect.TaskServiceGetLimitProcedure, &taskenginev1.GetLimitRequest{Name: name, Value: value}, true)
	if err != nil {
		return nil, err
	}
	return limitOf(res.GetLimit()), nil
}

// SetLimit changes a limit on all nodes until [Client.UnsetLimit], also over restarts, and returns it after the change. Running tasks
// go on, also above a lower limit. A change with IfVersion is not repeated when its answer is lost.
func (c *Client) SetLimit(ctx context.Context, name string, change LimitChange) (*Limit, error) {
	req := setLimitMessage(name, &change)
	res, err := call[taskenginev1.SetLimitResponse](ctx, c, taskenginev1connect.TaskServiceSetLimitProcedure, req, change.IfVersion == nil)
	if err != nil {
		return nil, err
	}
	return limitOf(res.GetLimit()), nil
}

// UnsetLimit removes a setting of SetLimit, so that the configuration holds again, and returns the limit after the change. The error
// wraps [ErrNotFound] if nothing is set.
func (c *Client) UnsetLimit(ctx context.Context, name string, unset LimitUnset) (*Limit, error) {
	req := unsetLimitMessage(name, &unset)
	res, err := call[taskenginev1.UnsetLimitResponse](ctx, c, taskenginev1connect.TaskServiceUnsetLimitProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return limitOf(res.GetLimit()), nil
}

func limitOf(m *taskenginev1.Limit) *Limit {
	l := &Limit{
		Name: m.GetName(), Value: m.GetValue(), Configured: m.GetConfigured(), Of: m.GetOf(), Per: m.GetPer(), Scope: LimitScope(m.GetScope()),
		Max: m.GetMax(), Rate: rateOf(m.GetRate()), Paused: m.GetPaused(), ConfiguredMax: m.GetConfiguredMax(),
		ConfiguredRate: rateOf(m.GetConfiguredRate()), Inherited: all(m.GetInherited(), limitSettingOf), Used: m.GetUsed(), Held: m.GetHeld(),
		Uses: all(m.GetUses(), limitUseOf),
	}
	if s := m.GetSetting(); s != nil {
		l.Setting = new(limitSettingOf(s))
	}
	return l
}

func limitSettingOf(m *taskenginev1.LimitSetting) LimitSetting {
	s := LimitSetting{
		Paused: m.GetPaused(), Version: m.GetVersion(), By: m.GetBy(), Node: m.GetNode(), At: timeOf(m.GetAt()), Value: m.GetValue(), Problem: m.GetProblem(),
	}
	if m != nil && m.Max != nil {
		s.Max = new(m.GetMax())
	}
	if r := m.GetRate(); r != nil {
		s.Rate = new(rateOf(r))
	}
	return s
}

func rateOf(m *taskenginev1.Rate) Rate {
	return Rate{Count: m.GetCount(), Per: m.GetPer().AsDuration(), Burst: m.GetBurst()}
}

func setLimitMessage(name string, l *LimitChange) *taskenginev1.SetLimitRequest {
	m := &taskenginev1.SetLimitRequest{Name: name, Value: l.Value, Max: l.Max, Paused: l.Paused, IfVersion: l.IfVersion, By: l.By}
	if r := l.Rate; r != nil {
		m.Rate = &taskenginev1.Rate{Count: r.Count, Per: durationpb.New(r.Per), Burst: r.Burst}
	}
	return m
}

func unsetLimitMessage(name string, l *LimitUnset) *taskenginev1.UnsetLimitRequest {
	return &taskenginev1.UnsetLimitRequest{Name: name, Value: l.Value, IfVersion: l.IfVersion, By: l.By}
}

func limitUseOf(m *taskenginev1.LimitUse) LimitUse {
	return LimitUse{Node: m.GetNode(), Used: m.GetUsed(), Held: m.GetHeld()}
}
