package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/policy"
)

// Alerts has the targets and rules of alerts.
type Alerts struct {
	Targets map[string]AlertTarget
	Rules   map[string]AlertRule
}

// AlertTarget is where notifications go. Exactly one of Log, Webhook, Exec and SMTP is set.
type AlertTarget struct {
	Log     bool
	Webhook *AlertWebhook
	Exec    *AlertExec
	SMTP    *AlertSMTP
	Rate    policy.Rate   // the zero Rate is no limit
	GiveUp  time.Duration // for how long a notification is tried
}

// AlertWebhook is a URL that gets notifications as JSON.
type AlertWebhook struct {
	URL     Text
	Headers map[string]Text
	Timeout time.Duration
}

// AlertExec is a command that is run for each notification.
type AlertExec struct {
	Command []string
	Dir     string
	Env     map[string]Text
	PassEnv []string
	Timeout time.Duration
	Grace   time.Duration
}

// The encryption of connections with a mail server.
const (
	MailStartTLS = "starttls"
	MailTLS      = "implicit"
	MailPlain    = "none"
)

// AlertSMTP is a mail server and the mails that it gets.
type AlertSMTP struct {
	Server   string // host:port
	TLS      string // MailStartTLS, MailTLS or MailPlain
	User     string // "": no login
	Password Text
	From     string
	To       []string
	Timeout  time.Duration
}

// AlertRule is the condition of an alert. Load returns it complete.
type AlertRule struct {
	When      alert.Kind
	Match     []string
	Count     int           // of Errors, Unhandled, CrashLoop and SourceLag
	OlderThan time.Duration // of QueueAge and ScheduleOverdue
	Used      int           // of DiskFull, in percent
	For       time.Duration
	GroupWait time.Duration
	Interval  time.Duration
	Repeat    time.Duration
	Targets   []string
}

// notGiven is the value of a number or time of a rule that the file does not give.
const notGiven = -1

var alertsTable = &object{fields: []field{
	{name: "targets", doc: "Where notifications go, by name. A notification is tried until its target accepts it, also after a restart. Every try has the same `id`.", is: table[AlertTarget]{of: "targets", keys: isName, likely: "NAME", is: alertTargetTable, fresh: func(*decoder, string) AlertTarget {
		return AlertTarget{GiveUp: 24 * time.Hour}
	}}, at: in(func(a *Alerts) *map[string]AlertTarget { return &a.Targets })},
	{name: "rules", doc: "The conditions of alerts, by name. Without rules there are no alerts.", is: table[AlertRule]{of: "rules", keys: isName, likely: "NAME", is: alertRuleTable, fresh: func(*decoder, string) AlertRule {
		return AlertRule{Count: notGiven, OlderThan: notGiven, Used: notGiven, For: notGiven, GroupWait: 30 * time.Second, Interval: 5 * time.Minute, Repeat: 4 * time.Hour}
	}}, at: in(func(a *Alerts) *map[string]AlertRule { return &a.Rules })},
}}

// alertWays are keys of a target. Exactly one is given.
var alertWays = []string{"log", "webhook", "exec", "smtp"}

var alertTargetTable = &object{what: "a target of alerts", rivals: [][]string{alertWays}, fields: []field{
	{name: "log", doc: "`true` writes a line to the log of the node for each alert.", is: boolean(), at: in(func(t *AlertTarget) *bool { return &t.Log })},
	{name: "webhook", doc: "Posts each notification as JSON to a URL.", is: alertWebhookTable, at: in(func(t *AlertTarget) *AlertWebhook {
		t.Webhook = &AlertWebhook{Timeout: 10 * time.Second}
		return t.Webhook
	})},
	{name: "exec", doc: "A command that is run for each notification, with the JSON on its standard input.", is: alertExecTable, at: in(func(t *AlertTarget) *AlertExec {
		t.Exec = &AlertExec{Dir: ".", Timeout: 30 * time.Second, Grace: 10 * time.Second}
		return t.Exec
	})},
	{name: "smtp", doc: "A mail server. Each notification is a mail in plain text.", is: alertSMTPTable, at: in(func(t *AlertTarget) *AlertSMTP {
		t.SMTP = &AlertSMTP{TLS: MailStartTLS, Timeout: 30 * time.Second}
		return t.SMTP
	})},
	{name: "rate", doc: "The maximum number of notifications to the target in a time, such as `20/1h`. Alerts above it are reported later in one notification. Alerts about one node and alerts about all nodes are counted separately.", otherwise: "without limit", is: rateText(), at: in(func(t *AlertTarget) *policy.Rate { return &t.Rate })},
	{name: "give_up", doc: "How long a notification is tried. Then it is lost, and the log says so. 0s is for ever.", def: "24h", is: period(aDuration, false), at: in(func(t *AlertTarget) *time.Duration { return &t.GiveUp })},
}}

var alertWebhookTable = &object{what: "webhook", fields: []field{
	{name: "url", doc: "The URL. It accepts a notification by a status below 300. Redirects are not followed. Many such URLs are secrets: write a reference.", required: true, is: httpURL(), at: in(func(w *AlertWebhook) *Text { return &w.URL })},
	{name: "headers", doc: "Headers to send, in addition to `Content-Type`, `User-Agent` and `Idempotency-Key`, which is the `id` of the notification.", is: table[Text]{of: "strings", keys: isHeader, likely: "HEADER", is: guarded{secret("string in one line", isHeaderValue), masked}}, at: in(func(w *AlertWebhook) *map[string]Text { return &w.Headers })},
	{name: "timeout", doc: "How long one request may take, including its answer.", def: "10s", is: period(aDuration, true), at: in(func(w *AlertWebhook) *time.Duration { return &w.Timeout })},
}}

var alertExecTable = &object{what: "exec", fields: []field{
	{name: "command", doc: "The command and its arguments. It accepts a notification by the exit code 0. A command with a slash is relative to the directory of the file. `${...}` is not replaced.", required: true, is: command, at: in(func(e *AlertExec) *[]string { return &e.Command })},
	{name: "dir", doc: dirDoc, def: ".", is: words("a path", notEmpty), at: in(func(e *AlertExec) *string { return &e.Dir })},
	{name: "env", doc: envDoc + " `TASKENGINE_ALERT_ID`, `_RULE`, `_STATUS` and `_SUMMARY` are set, too.", is: environment, at: in(func(e *AlertExec) *map[string]Text { return &e.Env })},
	{name: "pass_env", doc: passDoc, is: variableNames, at: in(func(e *AlertExec) *[]string { return &e.PassEnv })},
	{name: "timeout", doc: "How long one run may take. Then its process group is asked to end.", def: "30s", is: period(aDuration, true), at: in(func(e *AlertExec) *time.Duration { return &e.Timeout })},
	{name: "grace", doc: "The time from the request to end until the kill.", def: "10s", is: period(aDuration, false), at: in(func(e *AlertExec) *time.Duration { return &e.Grace })},
}}

var alertSMTPTable = &object{what: "smtp", fields: []field{
	{name: "server", doc: "The server as host:port, such as `mail.example.com:587`.", required: true, is: words("a server, such as mail.example.com:587", isServer), at: in(func(s *AlertSMTP) *string { return &s.Server })},
	{name: "tls", doc: "How the connection is encrypted: `starttls` begins in plain text and demands STARTTLS, `implicit` encrypts from the beginning (usually port 465). `none` is for a server on this machine.", def: MailStartTLS, is: oneOf(nil, option[string]{MailStartTLS, MailStartTLS}, option[string]{MailTLS, MailTLS}, option[string]{MailPlain, MailPlain}), at: in(func(s *AlertSMTP) *string { return &s.TLS })},
	{name: "user", doc: "The user for the login.", otherwise: "no login", is: words("a name", notEmpty), at: in(func(s *AlertSMTP) *string { return &s.User })},
	{name: "password", doc: "The password of `user`. Write a reference.", is: guarded{secret("string", notEmpty), masked}, at: in(func(s *AlertSMTP) *Text { return &s.Password })},
	{name: "from", doc: "The address of the sender.", required: true, is: words("a mail address, such as taskengine@example.com", isMailAddress), at: in(func(s *AlertSMTP) *string { return &s.From })},
	{name: "to", doc: "The addresses of the recipients.", required: true, is: sequence[string]{is: words("a mail address, such as ops@example.com", isMailAddress), single: true, least: 1, most: 100}, at: in(func(s *AlertSMTP) *[]string { return &s.To })},
	{name: "timeout", doc: "How long one mail may take.", def: "30s", is: period(aDuration, true), at: in(func(s *AlertSMTP) *time.Duration { return &s.Timeout })},
}}

var alertRuleTable = &object{what: "a rule of alerts", fields: []field{
	{name: "when", doc: "The condition of the rule. `errors`: tasks in the state `error`, by type. `unhandled`: ready tasks of a type that no node runs. `queue_age`: a ready task that waits for long, by type. `limit_full`: a limit at its `max`, or one of its values if it has `per` (at most 100 values of a limit on each node). `node_down`: a node that left without draining. `store_failing`: a node that cannot use its store. `coordinator_failing`: a node that cannot prove to its coordinator that it is alive. `handler_down`: a plugin or a handler with `remote` that takes no tasks. `crash_loop`: a plugin with processes that crash, or a handler with `remote` that loses its workers. `disk_full`: a disk with data of the node. `schedule_overdue`: a schedule that is due and has not run, because it fails or nothing runs it. `key_missing`: a node that lacks a key of `encoding` for which tasks wait. `source_lag`: a source that is behind. `source_failing`: a source that does not read all of its topics; a pause is no failure. `source_lost`: records that a source could not read because they were deleted before, with their range; it ends a day after the last loss. `platform_late`: a platform with a slice that is due and not done. `platform_failing`: a platform with failed slices, or one that makes none because of its breaker or of its values.", required: true, is: oneOf(nil, alertKinds()...), at: in(func(r *AlertRule) *alert.Kind { return &r.When })},
	{name: "match", doc: "The types, limits, handlers, directories, schedules, keys, sources or platforms (`SOURCE/PLATFORM`) that the rule is about, or else the nodes. A name with `*` at its end stands for all that begin so. The value of a limit with `per` is `LIMIT/VALUE`; `LIMIT` stands for all of them.", otherwise: "all", is: sequence[string]{is: words("string", notEmpty), single: true, least: 1, most: 100}, at: in(func(r *AlertRule) *[]string { return &r.Match })},
	{name: "count", doc: "For `errors` and `unhandled`: from how many tasks of a type on. For `crash_loop`: from how many crashes within ten minutes on. For `source_lag`: from how many offsets behind on.", otherwise: "1; for `crash_loop` 5, for `source_lag` 10000", is: whole[int](1, maxCount, "a number"), at: in(func(r *AlertRule) *int { return &r.Count })},
	{name: "older_than", doc: "For `queue_age`: for how long the oldest ready task has waited. For `schedule_overdue`: how late the schedule is. For `platform_late`: for how long the slice has been due.", otherwise: "10m", is: period(aDuration, true), at: in(func(r *AlertRule) *time.Duration { return &r.OlderThan })},
	{name: "used", doc: "For `disk_full`: the lowest percentage that is an alert.", otherwise: "90", is: whole[int](1, 100, "a number"), at: in(func(r *AlertRule) *int { return &r.Used })},
	{name: "for", doc: "How long it must be so before the alert fires.", otherwise: "0s; for `unhandled`, `node_down`, `handler_down`, `disk_full`, `source_failing` and `platform_failing` 1m, for `store_failing` and `coordinator_failing` 30s, for `limit_full` and `source_lag` 10m", is: period(aDuration, false), at: in(func(r *AlertRule) *time.Duration { return &r.For })},
	{name: "group_wait", doc: "How long a notification waits for further alerts of the rule.", def: "30s", is: period(aDuration, false), at: in(func(r *AlertRule) *time.Duration { return &r.GroupWait })},
	{name: "interval", doc: "The least time between two notifications of the rule that say something new.", def: "5m", is: period(aDuration, false), at: in(func(r *AlertRule) *time.Duration { return &r.Interval })},
	{name: "repeat", doc: "After this time a firing alert is reported again. 0s is never.", def: "4h", is: period(aDuration, false), at: in(func(r *AlertRule) *time.Duration { return &r.Repeat })},
	{name: "targets", doc: "The targets of the notifications.", otherwise: "all targets", is: sequence[string]{is: words("the name of a target", notEmpty), single: true, least: 1, most: 100}, at: in(func(r *AlertRule) *[]string { return &r.Targets })},
}}

func alertKinds() (options []option[alert.Kind]) {
	for _, k := range alert.Kinds() {
		options = append(options, option[alert.Kind]{k.String(), k})
	}
	return options
}

// alerts completes the rules of alerts, and checks the names in rules and targets.
func (d *decoder) alerts() {
	targets := slices.Sorted(maps.Keys(d.cfg.Alerts.Targets))
	for _, name := range targets {
		d.alertTarget(name, d.cfg.Alerts.Targets[name])
	}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Alerts.Rules)) {
		r := d.cfg.Alerts.Rules[name]
		path := func(key ...string) []string { return append([]string{"alerts", "rules", name}, key...) }
		if r.When != 0 {
			for _, key := range r.complete() {
				d.conflict(path(key), fmt.Sprintf("is not for %s; remove it", r.When))
			}
		}
		if len(targets) == 0 {
			d.conflict(path(), "there are no targets; add one to alerts.targets, such as ops: {log: true}")
		}
		for i, target := range r.Targets {
			if !slices.Contains(targets, target) && len(targets) > 0 {
				d.conflict(path("targets", strconv.Itoa(i)), fmt.Sprintf("there is no target %s; %s", strconv.Quote(target), suggest.Advice(target, targets)))
			}
		}
		if len(r.Targets) == 0 {
			r.Targets = targets
		}
		d.cfg.Alerts.Rules[name] = r
	}
}

// complete sets the defaults, and returns the given keys that do not apply to the kind.
func (r *AlertRule) complete() (wrong []string) {
	counts := r.When == alert.Errors || r.When == alert.Unhandled || r.When == alert.CrashLoop || r.When == alert.SourceLag
	if r.Count != notGiven && !counts {
		wrong = append(wrong, "count")
	}
	if r.OlderThan != notGiven && !r.isAboutAge() {
		wrong = append(wrong, "older_than")
	}
	if r.Used != notGiven && r.When != alert.DiskFull {
		wrong = append(wrong, "used")
	}
	if r.Count == notGiven {
		switch r.When {
		case alert.CrashLoop:
			r.Count = 5
		case alert.SourceLag:
			r.Count = 10_000
		default:
			r.Count = 1
		}
	}
	if r.OlderThan == notGiven {
		r.OlderThan = 10 * time.Minute
	}
	if r.Used == notGiven {
		r.Used = 90
	}
	if r.For == notGiven {
		switch r.When {
		case alert.Unhandled, alert.NodeDown, alert.HandlerDown, alert.DiskFull, alert.SourceFailing, alert.PlatformFailing:
			r.For = time.Minute
		case alert.StoreFailing, alert.CoordinatorFailing:
			r.For = 30 * time.Second
		case alert.LimitFull, alert.SourceLag:
			r.For = 10 * time.Minute
		default:
			r.For = 0
		}
	}
	return wrong
}

// isAboutAge reports whether the rule fires from an age on.
func (r *AlertRule) isAboutAge() bool {
	return r.When == alert.QueueAge || r.When == alert.ScheduleOverdue || r.When == alert.PlatformLate
}

func (d *decoder) alertTarget(name string, t AlertTarget) {
	path := []string{"alerts", "targets", name}
	if !t.Log && t.Webhook == nil && t.Exec == nil && t.SMTP == nil {
		d.conflict(path, "does not say where notifications go; write "+suggest.Either(alertWays))
	}
	if t.SMTP == nil {
		return
	}
	host, _, _ := net.SplitHostPort(t.SMTP.Server)
	switch path := append(path, "smtp"); {
	case t.SMTP.User != "" && t.SMTP.Password.Reveal() == "":
		d.conflict(append(path, "user"), "needs password, too")
	case t.SMTP.User == "" && t.SMTP.Password.Reveal() != "":
		d.conflict(append(path, "password"), "needs user, too")
	case t.SMTP.User != "" && t.SMTP.TLS == MailPlain && host != "localhost" && host != "127.0.0.1" && host != "::1":
		d.conflict(append(path, "tls"), "a password is not sent without encryption; write starttls or implicit")
	}
}

// Rule returns the rule with a name as the alerts use it.
func (r *AlertRule) Rule(name string) alert.Rule {
	rule := alert.Rule{
		Name: name, When: r.When, Match: r.Match, AtLeast: 1, For: r.For, GroupWait: r.GroupWait, Interval: r.Interval, Repeat: r.Repeat, Targets: r.Targets,
	}
	switch r.When {
	case alert.Errors, alert.Unhandled, alert.CrashLoop, alert.SourceLag:
		rule.AtLeast = float64(r.Count)
	case alert.QueueAge, alert.ScheduleOverdue, alert.PlatformLate:
		rule.AtLeast = r.OlderThan.Seconds()
	case alert.DiskFull:
		rule.AtLeast = float64(r.Used)
	}
	return rule
}

func isServer(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || strings.ContainsAny(host, " /@") {
		return fmt.Errorf("%.60q is not a server; write host:port, such as mail.example.com:587", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port %.20q is not a number of 1 to 65535", port)
	}
	return nil
}

func isMailAddress(s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("is not an address of ASCII letters without a name; write it such as ops@example.com")
	}
	return nil
}
