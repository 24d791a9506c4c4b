package cli

import (
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of limit share this file.

const limitHelp = `

LIMIT is NAME, which is the limit as a whole, or NAME/VALUE for one value of a limit that
counts per value. VALUE may end with *: then it is for all values that begin so.`

// splitLimit reads the argument LIMIT. value is "" for the limit as a whole.
func splitLimit(arg string) (name, value string, err error) {
	name, value, hasValue := strings.Cut(arg, "/")
	switch {
	case name == "":
		return "", "", exit.Errorf(exit.Usage, "%.80q has no name of a limit; want NAME or NAME/VALUE", arg)
	case hasValue && value == "":
		return "", "", exit.Errorf(exit.Usage, "%.80q has no value after the slash; want NAME/VALUE, or %s for the limit as a whole", arg, name)
	}
	return name, value, nil
}

// operator returns the user of this process, as user@host.
func operator() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// limitID returns a limit as the argument LIMIT names it.
func limitID(l *taskenginev1.Limit) string {
	if l.GetValue() == "" {
		return l.GetName()
	}
	return l.GetName() + "/" + l.GetValue()
}

// noRate is the rate of a limit that has none.
const noRate = "none"

// parseRate reads the flags --rate and --burst.
func parseRate(text string, burst int64) (*taskenginev1.Rate, error) {
	if text == noRate {
		if burst > 0 {
			return nil, exit.Errorf(exit.Usage, "--burst needs a rate, and --rate is %s", noRate)
		}
		return &taskenginev1.Rate{}, nil
	}
	r, err := config.ParseRate(text)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "--rate: %w; %s removes a rate", err, noRate)
	}
	return &taskenginev1.Rate{Count: uint32(r.Count), Per: durationpb.New(r.Per), Burst: uint32(burst)}, nil
}

// rateText writes the rate of a limit as --rate reads it; "" is no rate.
func rateText(r *taskenginev1.Rate) string {
	if r.GetCount() == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.GetCount(), durationText(r.GetPer()))
}

// rateWords formats the rate of a limit for a table.
func rateWords(r *taskenginev1.Rate) string {
	text := rateText(r)
	if text != "" && r.GetBurst() > 0 {
		text += fmt.Sprintf(" burst %d", r.GetBurst())
	}
	return text
}

// maxWords formats the maximum of a limit for a table.
func maxWords(most uint32) string {
	if most == 0 {
		return ""
	}
	return fmt.Sprint(most)
}

// settingWords describes a setting: its version, author, age and problem.
func settingWords(s *taskenginev1.LimitSetting, now time.Time) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("version %d", s.GetVersion())
	if s.GetBy() != "" {
		text += " by " + s.GetBy()
	}
	if s.GetNode() != "" {
		text += " on " + s.GetNode()
	}
	if s.GetAt() != nil {
		text += ", " + age(now, s.GetAt()) + " ago"
	}
	if s.GetProblem() != "" {
		text += "; problem: " + s.GetProblem()
	}
	return text
}

// showLimitRows writes limits as rows, or each as a line of JSON.
func (a *app) showLimitRows(limits ...*taskenginev1.Limit) error {
	if a.json() {
		return printMessages(a, limits)
	}
	now := time.Now()
	rows := make([][]string, len(limits))
	for i, l := range limits {
		used, nodes := usedWords(l)
		rows[i] = []string{
			limitID(l), l.GetOf(), l.GetPer(), l.GetScope(), maxWords(l.GetMax()), used, nodes, rateWords(l.GetRate()), yesNo(l.GetPaused()),
			settingWords(l.GetSetting(), now),
		}
	}
	return a.printTable([]string{"LIMIT", "OF", "PER", "SCOPE", "MAX", "USED", "BY", "RATE", "PAUSED", "SET"}, rows, "BY", "PER", "SCOPE")
}

// usedWords returns how many slots of a limit tasks take, on all nodes that have answered, and on each that runs some.
func usedWords(l *taskenginev1.Limit) (used, nodes string) {
	if len(l.GetUses()) == 0 {
		return fmt.Sprint(l.GetUsed()), ""
	}
	sum := int64(0)
	var by []string
	for _, u := range l.GetUses() {
		if sum += u.GetUsed(); u.GetUsed() > 0 {
			by = append(by, fmt.Sprintf("%s %d", u.GetNode(), u.GetUsed()))
		}
	}
	return fmt.Sprint(sum), strings.Join(by, ", ")
}
