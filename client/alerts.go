package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Alerts are the alerts of all nodes that share the store.
type Alerts struct {
	Alerts   []*Alert        // that fire, or ended without a notification so far, by rule and labels
	Silences []*AlertSilence // that have not ended, by their end
	Unsent   []*UnsentAlerts // notifications that no target has accepted yet, the oldest first
}

// AlertStatus says whether an alert fires. A node of a newer version may have others.
type AlertStatus string

// The status of an alert.
const (
	AlertFiring   AlertStatus = "firing"
	AlertResolved AlertStatus = "resolved" // it ended without a notification so far
)

// Alert is a rule of the configuration about one type, limit, node, handler or directory.
type Alert struct {
	Rule       string
	When       string            // the subject of the rule, as the configuration has it: errors, queue_age, ...
	Labels     map[string]string // type, limit, handler or path; node if it is about a node
	Status     AlertStatus
	Since      time.Time // since when it has the status
	FiredAt    time.Time
	ResolvedAt time.Time // zero while it fires
	Value      float64   // when a notification was made last, or it began to fire
	Summary    string    // for people
	Detail     string    // for people; it may have any text of a task
	Notified   []string  // targets with a notification that it fires, sent or due
	Silence    string    // the id of a silence that covers it; empty: none does
}

// AlertSilence keeps alerts out of notifications.
type AlertSilence struct {
	ID      string
	Rule    string            // empty: any
	Labels  map[string]string // that an alert must have; a value with * at its end stands for all that begin so
	Until   time.Time
	Comment string
	By      string // who made it
	At      time.Time
}

// UnsentAlerts is a notification that its target has not accepted yet.
type UnsentAlerts struct {
	ID      string
	Target  string
	Rule    string
	Summary string
	At      time.Time // when it was made
}

// SilenceRequest says which alerts are silenced. Rule or Labels is given.
type SilenceRequest struct {
	Rule    string            // empty: any
	Labels  map[string]string // as in [AlertSilence]
	For     time.Duration     // at most a year
	Comment string            // at most 500 bytes
	By      string            // the author, at most 200 bytes
}

// AlertTest is the outcome of a test of a target.
type AlertTest struct {
	Target  string
	Problem string // why the target did not accept it; empty if it did
	Took    time.Duration
}

// Alerts returns the alerts of all nodes that share the store, their silences, and the notifications that no target has accepted yet.
func (c *Client) Alerts(ctx context.Context) (*Alerts, error) {
	res, err := call[taskenginev1.ListAlertsResponse](ctx, c, taskenginev1connect.TaskServiceListAlertsProcedure, &taskenginev1.ListAlertsRequest{}, true)
	if err != nil {
		return nil, err
	}
	return alertsOf(res), nil
}

// SilenceAlerts keeps alerts out of notifications for a time, on all nodes and over restarts. The end of an alert is sent all the same.
// Each call makes another silence.
func (c *Client) SilenceAlerts(ctx context.Context, r SilenceRequest) (*AlertSilence, error) {
	res, err := call[taskenginev1.SilenceAlertsResponse](ctx, c, taskenginev1connect.TaskServiceSilenceAlertsProcedure, silenceMessage(&r), false)
	if err != nil {
		return nil, err
	}
	return silenceOf(res.GetSilence()), nil
}

// UnsilenceAlerts ends a silence. The error wraps [ErrNotFound] if there is none with the id.
func (c *Client) UnsilenceAlerts(ctx context.Context, id string) error {
	_, err := call[taskenginev1.UnsilenceAlertsResponse](ctx, c, taskenginev1connect.TaskServiceUnsilenceAlertsProcedure, &taskenginev1.UnsilenceAlertsRequest{Id: id}, false)
	return err
}

// TestAlerts sends a test notification to targets of the configuration of the node, or to all of them without names, once, and returns the
// outcome for each.
func (c *Client) TestAlerts(ctx context.Context, targets ...string) ([]AlertTest, error) {
	res, err := call[taskenginev1.TestAlertsResponse](ctx, c, taskenginev1connect.TaskServiceTestAlertsProcedure, &taskenginev1.TestAlertsRequest{Targets: targets}, false)
	if err != nil {
		return nil, err
	}
	return all(res.GetTests(), alertTestOf), nil
}

func alertsOf(m *taskenginev1.ListAlertsResponse) *Alerts {
	return &Alerts{Alerts: all(m.GetAlerts(), alertOf), Silences: all(m.GetSilences(), silenceOf), Unsent: all(m.GetUnsent(), unsentOf)}
}

func alertOf(m *taskenginev1.Alert) *Alert {
	return &Alert{
		Rule: m.GetRule(), When: m.GetWhen(), Labels: m.GetLabels(), Status: AlertStatus(m.GetStatus()), Since: timeOf(m.GetSince()),
		FiredAt: timeOf(m.GetFiredAt()), ResolvedAt: timeOf(m.GetResolvedAt()), Value: m.GetValue(), Summary: m.GetSummary(), Detail: m.GetDetail(),
		Notified: m.GetNotified(), Silence: m.GetSilence(),
	}
}

func silenceOf(m *taskenginev1.AlertSilence) *AlertSilence {
	return &AlertSilence{
		ID: m.GetId(), Rule: m.GetRule(), Labels: m.GetLabels(), Until: timeOf(m.GetUntil()), Comment: m.GetComment(), By: m.GetBy(), At: timeOf(m.GetAt()),
	}
}

func unsentOf(m *taskenginev1.UnsentAlerts) *UnsentAlerts {
	return &UnsentAlerts{ID: m.GetId(), Target: m.GetTarget(), Rule: m.GetRule(), Summary: m.GetSummary(), At: timeOf(m.GetAt())}
}

func alertTestOf(m *taskenginev1.AlertTest) AlertTest {
	return AlertTest{Target: m.GetTarget(), Problem: m.GetProblem(), Took: m.GetTook().AsDuration()}
}

func silenceMessage(r *SilenceRequest) *taskenginev1.SilenceAlertsRequest {
	return &taskenginev1.SilenceAlertsRequest{Rule: r.Rule, Labels: r.Labels, For: span(r.For), Comment: r.Comment, By: r.By}
}
