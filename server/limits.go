package server

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// limitTries is how often a change of a limit is tried while its setting changes concurrently.
const limitTries = 10

// ListLimits returns all limits.
func (a *API) ListLimits(ctx context.Context, req *taskenginev1.ListLimitsRequest) (*taskenginev1.ListLimitsResponse, error) {
	all, err := a.engine.Limits(ctx)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListLimitsResponse{Limits: limitsOf(all)}
	answers, silent := ask(ctx, a, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.ListLimitsResponse, error) {
		return c.ListLimits(ctx, req)
	})
	res.Silent = silent
	if len(answers) > 0 {
		a.addUses(res.Limits, answers)
	}
	return res, nil
}

// addUses says in limits how much each node uses of them.
func (a *API) addUses(limits []*taskenginev1.Limit, answers []peer.Answer[*taskenginev1.ListLimitsResponse]) {
	type key struct{ name, value string }
	by := make(map[key]*taskenginev1.Limit, len(limits))
	for _, l := range limits {
		by[key{l.GetName(), l.GetValue()}] = l
		l.Uses = []*taskenginev1.LimitUse{{Node: text(a.node), Used: l.GetUsed(), Held: l.GetHeld()}}
	}
	for _, one := range answers {
		for _, l := range one.Res.GetLimits() {
			if own := by[key{l.GetName(), l.GetValue()}]; own != nil {
				own.Uses = append(own.Uses, &taskenginev1.LimitUse{Node: text(nodeName(&one.Node)), Used: l.GetUsed(), Held: l.GetHeld()})
			}
		}
	}
}

// GetLimit returns one limit, or one of its values.
func (a *API) GetLimit(ctx context.Context, req *taskenginev1.GetLimitRequest) (*taskenginev1.GetLimitResponse, error) {
	l, err := a.limit(ctx, req.GetName(), req.GetValue())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.GetLimitResponse{Limit: l}, nil
}

// SetLimit changes a limit, or one of its values.
func (a *API) SetLimit(ctx context.Context, req *taskenginev1.SetLimitRequest) (*taskenginev1.SetLimitResponse, error) {
	if err := a.setLimit(ctx, req); err != nil {
		return nil, a.answer(err)
	}
	l, err := a.limit(ctx, req.GetName(), req.GetValue())
	if err != nil {
		return nil, err
	}
	a.log.Info("a limit was set", "limit", req.GetName(), "value", req.GetValue(), "version", l.GetSetting().GetVersion(), "by", byOf(ctx, req.GetBy()))
	return &taskenginev1.SetLimitResponse{Limit: l}, nil
}

// setLimit changes the fields of a request in the setting of a limit, and keeps the other fields.
func (a *API) setLimit(ctx context.Context, req *taskenginev1.SetLimitRequest) error {
	if req.Max == nil && req.Rate == nil && req.Paused == nil {
		return invalid("none of max, rate and paused is given")
	}
	change, err := settingOf(req)
	if err != nil {
		return err
	}
	change.By = byOf(ctx, change.By)
	var stale error
	for range limitTries {
		next, version, err := a.change(ctx, change, req.Paused != nil)
		if err != nil {
			return err
		}
		if req.IfVersion != nil {
			version = req.GetIfVersion()
		}
		_, stale = a.engine.SetLimit(ctx, next, &version)
		switch {
		case errors.Is(stale, engine.ErrNotSet): // it was resumed, and was not paused
			return nil
		case req.IfVersion != nil || !errors.Is(stale, engine.ErrStale):
			return stale
		}
	}
	return stale
}

// change returns the setting of a limit after a change, and the version of the setting as it is stored.
func (a *API) change(ctx context.Context, change engine.LimitSetting, pauses bool) (next engine.LimitSetting, version uint64, err error) {
	all, err := a.engine.LimitSettings(ctx)
	if err != nil {
		return change, 0, err
	}
	for _, was := range all {
		if was.Limit == change.Limit && was.Value == change.Value {
			return merged(was, change, pauses), was.Version, nil
		}
	}
	return change, 0, nil
}

// settingOf converts a request. The engine checks the rest.
func settingOf(req *taskenginev1.SetLimitRequest) (engine.LimitSetting, error) {
	s := engine.LimitSetting{Limit: req.GetName(), Value: req.GetValue(), Paused: req.GetPaused(), By: req.GetBy()}
	if req.Max != nil {
		most := int(req.GetMax())
		s.Max = &most
	}
	if r := req.GetRate(); r != nil {
		per, err := durationOf("rate.per", r.GetPer())
		if err != nil {
			return s, err
		}
		s.Rate = &policy.Rate{Count: int(r.GetCount()), Per: per, Burst: int(r.GetBurst())}
	}
	return s, nil
}

// merged returns a setting with the fields of a change.
func merged(was, change engine.LimitSetting, pauses bool) engine.LimitSetting {
	if change.Max == nil {
		change.Max = was.Max
	}
	if change.Rate == nil {
		change.Rate = was.Rate
	}
	if !pauses {
		change.Paused = was.Paused
	}
	return change
}

// UnsetLimit removes the setting of a limit, or of one of its values.
func (a *API) UnsetLimit(ctx context.Context, req *taskenginev1.UnsetLimitRequest) (*taskenginev1.UnsetLimitResponse, error) {
	if err := a.engine.UnsetLimit(ctx, req.GetName(), req.GetValue(), req.IfVersion); err != nil {
		return nil, a.answer(err)
	}
	a.log.Info("a limit was unset", "limit", req.GetName(), "value", req.GetValue(), "by", byOf(ctx, req.GetBy()))
	l, err := a.engine.Limit(ctx, req.GetName(), req.GetValue())
	if errors.Is(err, engine.ErrInvalid) { // it is not configured
		l, err = engine.LimitStatus{Name: req.GetName(), Value: req.GetValue()}, nil
	}
	if err != nil {
		return nil, a.answer(err)
	}
	return &taskenginev1.UnsetLimitResponse{Limit: limitOf(&l)}, nil
}

// WatchLimits sends all limits, at once and after each change.
func (a *API) WatchLimits(ctx context.Context, req *taskenginev1.WatchLimitsRequest, stream *connect.ServerStream[taskenginev1.WatchLimitsResponse]) error {
	return a.watchLimits(ctx, req, stream.Send)
}

func (a *API) watchLimits(ctx context.Context, req *taskenginev1.WatchLimitsRequest, send func(*taskenginev1.WatchLimitsResponse) error) error {
	timeout, err := pollOf(req.GetTimeout())
	if err != nil {
		return a.answer(err)
	}
	until, cancel := context.WithTimeoutCause(ctx, timeout, errPolled)
	defer cancel()
	send = rechecked(a, ctx, send)
	var failed error
	err = a.engine.WatchLimits(until, func([]engine.LimitSetting) {
		if failed = a.sendLimits(ctx, send); failed != nil { // the first response does not depend on the timeout
			cancel()
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return a.answer(err)
	}
	return nil
}

// sendLimits sends all limits, without their use and permits, which change all the time.
func (a *API) sendLimits(ctx context.Context, send func(*taskenginev1.WatchLimitsResponse) error) error {
	all, err := a.engine.Limits(ctx)
	if err != nil {
		return err
	}
	limits := limitsOf(all)
	for _, l := range limits {
		l.Used, l.Held = 0, 0
	}
	return send(&taskenginev1.WatchLimitsResponse{Limits: limits})
}

// WhyLimit returns the current counts of a limit.
func (a *API) WhyLimit(ctx context.Context, req *taskenginev1.WhyLimitRequest) (*taskenginev1.WhyLimitResponse, error) {
	why, err := a.engine.WhyLimit(ctx, req.GetName(), req.GetValue())
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.WhyLimitResponse{Limit: limitOf(&why.LimitStatus), NextStart: stamp(why.NextStart), NodesProblem: text(why.NodesProblem)}
	for _, t := range why.Tasks {
		res.Tasks = append(res.Tasks, &taskenginev1.LimitTask{
			Id: t.ID.String(), Type: text(t.Type), Slots: uint32(t.Weight), StartedAt: stamp(t.StartedAt), Node: text(a.node),
		})
	}
	for _, q := range why.Queued {
		res.Queued = append(res.Queued, &taskenginev1.LimitQueue{Type: text(q.Type), Tasks: int64(q.Tasks), Node: text(a.node)})
	}
	for _, n := range why.Nodes {
		res.Nodes = append(res.Nodes, &taskenginev1.LimitNode{Node: text(n.Node), Held: int64(n.Held), Want: int64(n.Want), Since: stamp(n.Since)})
	}
	answers, silent := ask(ctx, a, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.WhyLimitResponse, error) {
		return c.WhyLimit(ctx, req)
	})
	res.Silent = silent
	for _, one := range answers {
		res.Tasks = append(res.Tasks, one.Res.GetTasks()...)
		res.Queued = append(res.Queued, one.Res.GetQueued()...)
	}
	return res, nil
}

// limit returns the message of a limit, or of one of its values.
func (a *API) limit(ctx context.Context, name, value string) (*taskenginev1.Limit, error) {
	l, err := a.engine.Limit(ctx, name, value)
	if err != nil {
		return nil, a.answer(err)
	}
	return limitOf(&l), nil
}

func limitsOf(all []engine.LimitStatus) []*taskenginev1.Limit {
	ms := make([]*taskenginev1.Limit, len(all))
	for i := range all {
		ms[i] = limitOf(&all[i])
	}
	return ms
}

// limitOf returns the message of a limit.
func limitOf(l *engine.LimitStatus) *taskenginev1.Limit {
	m := &taskenginev1.Limit{
		Name: text(l.Name), Value: text(l.Value), Configured: l.Configured, Of: l.Base.Of, Per: l.Base.Per,
		Max: uint32(l.Max), Rate: rateOf(l.Rate), Paused: l.Paused,
		ConfiguredMax: uint32(l.Base.Max), ConfiguredRate: rateOf(l.Base.Rate), Used: int64(l.Used), Held: int64(l.Held),
	}
	switch {
	case l.Configured && l.Base.Cluster:
		m.Scope = "cluster"
	case l.Configured:
		m.Scope = "node"
	}
	for i := range l.Settings {
		s := settingMessage(&l.Settings[i])
		if i == 0 && l.Setting() != nil {
			m.Setting = s
		} else {
			m.Inherited = append(m.Inherited, s)
		}
	}
	return m
}

// settingMessage returns the message of a setting.
func settingMessage(s *engine.LimitSetting) *taskenginev1.LimitSetting {
	m := &taskenginev1.LimitSetting{
		Value: text(s.Value), Paused: s.Paused, Version: s.Version, By: text(s.By), Node: text(s.Node), At: stamp(s.At), Problem: text(s.Problem),
	}
	if s.Max != nil {
		most := uint32(*s.Max)
		m.Max = &most
	}
	if s.Rate != nil {
		if m.Rate = rateOf(*s.Rate); m.Rate == nil {
			m.Rate = &taskenginev1.Rate{}
		}
	}
	return m
}

// rateOf returns the message of a rate; nil if it is no limit.
func rateOf(r policy.Rate) *taskenginev1.Rate {
	if r.IsZero() {
		return nil
	}
	return &taskenginev1.Rate{Count: uint32(r.Count), Per: durationpb.New(r.Per), Burst: uint32(r.Burst)}
}
