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

// The subcommands of alert share this file.

// showSilences writes silences as rows.
func (a *app) showSilences(all ...*taskenginev1.AlertSilence) error {
	return a.printSheets(a.silenceSheet(all))
}

func (a *app) silenceSheet(all []*taskenginev1.AlertSilence) sheet {
	now := time.Now()
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{s.GetId(), s.GetRule(), labelWords(s.GetLabels()), a.moment(s.GetUntil(), now), s.GetBy(), s.GetComment()}
	}
	return sheet{head: []string{"SILENCE", "RULE", "LABELS", "UNTIL", "BY", "COMMENT"}, rows: rows, spare: []string{"BY", "LABELS"}}
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
	return strings.Join(a.GetNotified(), ", ")
}
