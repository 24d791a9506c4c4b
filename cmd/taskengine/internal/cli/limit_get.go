package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newLimitGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get LIMIT",
		Short: "Show a limit as it is in force, its configuration and its setting",
		Long:  "Show a limit as it is in force, its configuration and its setting." + limitHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, value, err := splitLimit(args[0])
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.GetLimit, &taskenginev1.GetLimitRequest{Name: name, Value: value})
				if err != nil {
					return err
				}
				return a.showLimit(res.GetLimit(), time.Now())
			})
		},
	}
}

// showLimit writes everything about one limit.
func (a *app) showLimit(l *taskenginev1.Limit, now time.Time) error {
	if a.json() {
		return a.showLimitRows(l)
	}
	_, err := fmt.Fprint(a.stdout, limitText(l, now))
	return err
}

// limitText describes a limit as lines of text.
func limitText(l *taskenginev1.Limit, now time.Time) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-8s %s\n", name, clean(value))
		}
	}
	field("limit", limitID(l))
	field("of", l.GetOf())
	field("per", l.GetPer())
	field("scope", l.GetScope())
	set := l.GetSetting()
	field("max", origin(maxWords(l.GetMax()), set != nil && set.Max != nil, maxWords(l.GetConfiguredMax())))
	field("rate", origin(rateWords(l.GetRate()), set.GetRate() != nil, rateWords(l.GetConfiguredRate())))
	if l.GetPaused() {
		field("paused", "yes: tasks that count for it are not started")
	}
	field("set", settingWords(set, now))
	for _, s := range l.GetInherited() {
		of := l.GetName()
		if s.GetValue() != "" {
			of += "/" + s.GetValue()
		}
		field("", "set for "+of+": "+setWords(s)+"; "+settingWords(s, now))
	}
	used := fmt.Sprintf("%d by tasks of this node", l.GetUsed())
	if l.GetHeld() > 0 {
		used += fmt.Sprintf(", which has %d permits", l.GetHeld())
	}
	field("used", used)
	if !l.GetConfigured() {
		field("", "the configuration of this node has no such limit: the setting has no effect here")
	}
	return b.String()
}

// setWords lists the values of a setting.
func setWords(s *taskenginev1.LimitSetting) string {
	var parts []string
	if s.Max != nil {
		parts = append(parts, "max "+orNone(maxWords(s.GetMax())))
	}
	if s.Rate != nil {
		parts = append(parts, "rate "+orNone(rateWords(s.GetRate())))
	}
	if s.GetPaused() {
		parts = append(parts, "paused")
	}
	return strings.Join(parts, ", ")
}

// origin says of a value of a limit where it is from.
func origin(inForce string, isSet bool, configured string) string {
	text := orNone(inForce)
	if isSet || inForce != configured {
		text += ", configured: " + orNone(configured)
	}
	return text
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
