package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/alert"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Alerts are the alerts of the nodes that share a store.
type Alerts interface {
	// List returns the stored alerts, silences and unsent notifications.
	List(ctx context.Context) (AlertList, error)
	// Test sends a test to these targets, or to all if none is given. It returns an error that wraps
	// [ErrNoTarget] if there is none of a name, and then sends nothing.
	Test(ctx context.Context, targets []string) ([]AlertTest, error)
	// Silence adds a silence, and sets its ID and At.
	Silence(ctx context.Context, s alert.Silence, length time.Duration) (alert.Silence, error)
	// Unsilence removes a silence. It returns an error that wraps [ErrNoSilence] if there is none.
	Unsilence(ctx context.Context, id string) error
}

// AlertList has the stored alerts, silences and unsent notifications.
type AlertList struct {
	Alerts   []*alert.Alert
	Silences []alert.Silence
	Silenced map[alert.Key]string // of alerts: the silence that covers them
	Unsent   []alert.Notification
}

// AlertTest is the outcome of a test of a target.
type AlertTest struct {
	Target string
	Err    error // nil if it was accepted
	Took   time.Duration
}

// Errors of [Alerts].
var (
	ErrNoAlerts  = errors.New("the configuration of this node has no alerts")
	ErrNoTarget  = errors.New("there is no such target of alerts")
	ErrNoRule    = errors.New("there is no such rule of alerts")
	ErrNoSilence = errors.New("there is no such silence")
)

// Limits of a silence.
const (
	maxSilence = 366 * 24 * time.Hour
	maxComment = 500
	maxBy      = 200
	maxLabels  = 10
	maxLabel   = 500
)

// ListAlerts returns the alerts, silences and unsent notifications.
func (a *API) ListAlerts(ctx context.Context, _ *taskenginev1.ListAlertsRequest) (*taskenginev1.ListAlertsResponse, error) {
	if a.alerts == nil {
		return nil, a.answer(ErrNoAlerts)
	}
	list, err := a.alerts.List(ctx)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListAlertsResponse{}
	for _, one := range list.Alerts {
		res.Alerts = append(res.Alerts, &taskenginev1.Alert{
			Rule: text(one.Rule), When: one.When.String(), Labels: labelTexts(one.Labels()), Status: string(one.Status),
			Since: stamp(one.Since), FiredAt: stamp(one.FiredAt), ResolvedAt: stamp(one.ResolvedAt), Value: one.Value,
			Summary: text(one.Summary()), Detail: text(one.Detail), Notified: slices.Sorted(maps.Keys(one.Notified)), Silence: list.Silenced[one.Key],
		})
	}
	slices.SortFunc(list.Silences, func(a, b alert.Silence) int { return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.ID, b.ID)) })
	for i := range list.Silences {
		res.Silences = append(res.Silences, silenceOf(&list.Silences[i]))
	}
	for _, n := range list.Unsent {
		res.Unsent = append(res.Unsent, &taskenginev1.UnsentAlerts{Id: n.ID, Target: n.Target, Rule: text(n.Rule), Summary: text(n.Summary), At: stamp(n.At)})
	}
	return res, nil
}

func silenceOf(s *alert.Silence) *taskenginev1.AlertSilence {
	return &taskenginev1.AlertSilence{Id: s.ID, Rule: s.Rule, Labels: s.Labels, Until: stamp(s.Until), Comment: s.Comment, By: s.By, At: stamp(s.At)}
}

func labelTexts(labels map[string]string) map[string]string {
	safe := make(map[string]string, len(labels))
	for name, value := range labels {
		safe[name] = text(value)
	}
	return safe
}

// TestAlerts sends a test to targets.
func (a *API) TestAlerts(ctx context.Context, req *taskenginev1.TestAlertsRequest) (*taskenginev1.TestAlertsResponse, error) {
	if a.alerts == nil {
		return nil, a.answer(ErrNoAlerts)
	}
	tests, err := a.alerts.Test(ctx, req.GetTargets())
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.TestAlertsResponse{}
	for _, t := range tests {
		one := &taskenginev1.AlertTest{Target: t.Target, Took: durationpb.New(t.Took)}
		if t.Err != nil {
			one.Problem = text(t.Err.Error())
		}
		res.Tests = append(res.Tests, one)
	}
	return res, nil
}

// SilenceAlerts adds a silence.
func (a *API) SilenceAlerts(ctx context.Context, req *taskenginev1.SilenceAlertsRequest) (*taskenginev1.SilenceAlertsResponse, error) {
	if a.alerts == nil {
		return nil, a.answer(ErrNoAlerts)
	}
	length, err := a.checkSilence(req)
	if err != nil {
		return nil, a.answer(err)
	}
	s, err := a.alerts.Silence(ctx, alert.Silence{Rule: req.GetRule(), Labels: req.GetLabels(), Comment: req.GetComment(), By: byOf(ctx, req.GetBy())}, length)
	if err != nil {
		return nil, a.answer(err)
	}
	a.log.Info("alerts were silenced", "rule", s.Rule, "labels", s.Labels, "until", s.Until, "by", s.By, "comment", s.Comment, "id", s.ID)
	return &taskenginev1.SilenceAlertsResponse{Silence: silenceOf(&s)}, nil
}

// checkSilence returns how long a silence is to last.
func (a *API) checkSilence(req *taskenginev1.SilenceAlertsRequest) (time.Duration, error) {
	length, err := durationOf("for", req.GetFor())
	switch {
	case err != nil:
		return 0, err
	case length <= 0 || length > maxSilence:
		return 0, invalid("for is %v; it must be more than 0 and at most %v", length, maxSilence)
	case req.GetRule() == "" && len(req.GetLabels()) == 0:
		return 0, invalid("neither rule nor labels are given; a silence of everything needs a label such as node=*")
	case len(req.GetRule()) > maxLabel || len(req.GetLabels()) > maxLabels:
		return 0, invalid("rule may have %d bytes, and there may be %d labels", maxLabel, maxLabels)
	case len(req.GetComment()) > maxComment || len(req.GetBy()) > maxBy:
		return 0, invalid("comment may have %d bytes, and by %d", maxComment, maxBy)
	}
	for name, value := range req.GetLabels() {
		if len(name)+len(value) > maxLabel {
			return 0, invalid("label %.40q: a label has with its value at most %d bytes", name, maxLabel)
		}
		if names := alert.LabelNames(); !slices.Contains(names, name) {
			return 0, invalid("label %.40q: no alert has it, and the silence would cover none; the labels are %s", name, strings.Join(names, ", "))
		}
	}
	return length, nil
}

// UnsilenceAlerts ends a silence.
func (a *API) UnsilenceAlerts(ctx context.Context, req *taskenginev1.UnsilenceAlertsRequest) (*taskenginev1.UnsilenceAlertsResponse, error) {
	if a.alerts == nil {
		return nil, a.answer(ErrNoAlerts)
	}
	if err := a.alerts.Unsilence(ctx, req.GetId()); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a silence of alerts was ended", "id", req.GetId())
	return &taskenginev1.UnsilenceAlertsResponse{}, nil
}
