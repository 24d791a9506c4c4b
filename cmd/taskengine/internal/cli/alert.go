package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of alert share this file. The types are the contract of -o json, described in
// docs/cli.md: fields are only ever added to them.

type alertsJSON struct {
	Alerts   []alertJSON   `json:"alerts"`
	Silences []silenceJSON `json:"silences"`
	Unsent   []unsentJSON  `json:"unsent"`
}

type alertJSON struct {
	Rule       string            `json:"rule"`
	When       string            `json:"when"`
	Labels     map[string]string `json:"labels"`
	Status     string            `json:"status"`
	Since      *time.Time        `json:"since,omitempty"`
	FiredAt    *time.Time        `json:"fired_at,omitempty"`
	ResolvedAt *time.Time        `json:"resolved_at,omitempty"`
	Value      float64           `json:"value"`
	Summary    string            `json:"summary"`
	Detail     string            `json:"detail,omitempty"`
	Told       []string          `json:"told"`
	Silence    string            `json:"silence,omitempty"`
}

type silenceJSON struct {
	ID      string            `json:"id"`
	Rule    string            `json:"rule,omitempty"`
	Labels  map[string]string `json:"labels"`
	Until   *time.Time        `json:"until,omitempty"`
	Comment string            `json:"comment,omitempty"`
	By      string            `json:"by,omitempty"`
	At      *time.Time        `json:"at,omitempty"`
}

type unsentJSON struct {
	ID      string     `json:"id"`
	Target  string     `json:"target"`
	Rule    string     `json:"rule"`
	Summary string     `json:"summary"`
	At      *time.Time `json:"at,omitempty"`
}

func alertToJSON(a *taskenginev1.Alert) alertJSON {
	return alertJSON{
		Rule: a.GetRule(), When: a.GetWhen(), Labels: labelsToJSON(a.GetLabels()), Status: a.GetStatus(),
		Since: timeToJSON(a.GetSince()), FiredAt: timeToJSON(a.GetFiredAt()), ResolvedAt: timeToJSON(a.GetResolvedAt()),
		Value: a.GetValue(), Summary: a.GetSummary(), Detail: a.GetDetail(), Told: append([]string{}, a.GetTold()...), Silence: a.GetSilence(),
	}
}

func silenceToJSON(s *taskenginev1.AlertSilence) silenceJSON {
	return silenceJSON{
		ID: s.GetId(), Rule: s.GetRule(), Labels: labelsToJSON(s.GetLabels()), Until: timeToJSON(s.GetUntil()),
		Comment: s.GetComment(), By: s.GetBy(), At: timeToJSON(s.GetAt()),
	}
}

// labelsToJSON returns labels that are an object also if there are none.
func labelsToJSON(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// showSilences writes silences as rows.
func (a *app) showSilences(all ...*taskenginev1.AlertSilence) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{s.GetId(), s.GetRule(), labelWords(s.GetLabels()), when(s.GetUntil()), s.GetBy(), s.GetComment()}
	}
	return a.printTable([]string{"SILENCE", "RULE", "LABELS", "UNTIL", "BY", "COMMENT"}, rows, "BY", "LABELS")
}

// labelWords writes labels as the arguments of a silence.
func labelWords(labels map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, name+"="+labels[name])
	}
	return strings.Join(words, " ")
}

// parseSilence reads the arguments of a silence: a rule, and labels as NAME=PATTERN.
func parseSilence(args []string) (rule string, labels map[string]string, err error) {
	labels = make(map[string]string)
	for i, arg := range args {
		name, pattern, isLabel := strings.Cut(arg, "=")
		switch {
		case !isLabel && i == 0:
			rule = arg
		case !isLabel:
			return "", nil, exit.Errorf(exit.Usage, "%.80q is no label; want NAME=VALUE, such as type=mail or node=web-*", arg)
		case name == "" || pattern == "":
			return "", nil, exit.Errorf(exit.Usage, "%.80q lacks a name or a value; want NAME=VALUE, such as type=mail or node=web-*", arg)
		case labels[name] != "":
			return "", nil, exit.Errorf(exit.Usage, "the label %.80q is given twice", name)
		default:
			labels[name] = pattern
		}
	}
	return rule, labels, nil
}

// alertWords names the targets that were notified of an alert, or its silence.
func alertWords(a *taskenginev1.Alert) string {
	if id := a.GetSilence(); id != "" {
		return fmt.Sprintf("silence %s", id)
	}
	return strings.Join(a.GetTold(), ", ")
}
