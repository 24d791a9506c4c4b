package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/internal/redact"
	"github.com/taskengine/taskengine/policy"
)

var handlersTable = table[Handler]{of: "handlers", keys: isName, likely: "NAME", is: variants{
	{"plugin", pluginTable, func(h *Handler) any { p := defaultPlugin(); h.Plugin = &p; return h.Plugin }},
	{"exec", execTable, func(h *Handler) any { e := defaultExec(); h.Exec = &e; return h.Exec }},
	{"http", httpTable, func(h *Handler) any { r := defaultHTTP(); h.HTTP = &r; return h.HTTP }},
	{"kafka", topicTable, func(h *Handler) any { t := defaultTopic(); h.Kafka = &t; return h.Kafka }},
	{"remote", remoteTable, func(h *Handler) any { r := defaultRemote(); h.Remote = &r; return h }},
	{"split", splitTable, func(h *Handler) any { h.Split = make(map[string]int); return h }},
}}

const (
	dirDoc    = "The working directory."
	envDoc    = "The environment variables. The process gets these, the variables of `pass_env`, and no others."
	userDoc   = "The user that it runs as: a name or a number. This needs a node that runs as root. The default is the user of the node."
	addDoc    = "The types of the tasks and children that an [answer document](handlers-builtin.md#the-answer-document) may add. A name that ends with `*` stands for all types that begin with the text before it."
	signalDoc = "The types of the tasks that an answer document may signal, as for `may_add`. With `\"*\"` it may also signal the id of a task without naming its type."

	writesDoc = "The keys of the [documents](workflows.md#a-document-that-tasks-share) that the program may write with the end of an attempt, and read. One that ends with `*` stands for all keys that begin with the text before it."
	readsDoc  = "The keys of more documents that the program may read, as for `may_write`."
	writeDoc  = "The keys of the [documents](workflows.md#a-document-that-tasks-share) that an answer document may write. One that ends with `*` stands for all keys that begin with the text before it."

	passDoc = "Names of variables that are passed on from the environment of the engine."

	limitsNeed = "Limits need Linux with cgroup v2 and the right to create control groups, as root or by systemd's `Delegate=yes`. Without these, the log says that the limits are not enforced."
)

var command = sequence[string]{is: verbatim{}, least: 1, most: 1000}

var environment = table[Text]{of: "strings", keys: isUsersVariable, likely: "VARIABLE", is: guarded{secret("string", noNUL), masked}}

var variableNames = sequence[string]{is: words("the name of a variable", isVariableName), single: true, most: 1000}

var typePatterns = sequence[string]{is: words("a type, or the beginning of some and *", isTypePattern), single: true, most: 1000}

var keyPatterns = sequence[string]{is: words("a key, or the beginning of some and *", notEmpty), single: true, most: 1000}

var pluginTable = &object{what: "a handler with a plugin", fields: []field{
	{name: "plugin", doc: "The program and its arguments. The process stays and gets many tasks. A program with a slash is relative to the directory of the file. `${...}` is not replaced.", required: true, is: command, at: in(func(p *Plugin) *[]string { return &p.Command })},
	{name: "dir", doc: dirDoc, def: ".", is: words("a path", notEmpty), at: in(func(p *Plugin) *string { return &p.Dir })},
	{name: "slots", doc: "How many tasks one process gets at once. Tasks without a slot wait in the engine: they have not begun.", def: "8", is: whole[int](1, maxCount, "a number"), at: in(func(p *Plugin) *int { return &p.Slots })},
	{name: "env", doc: envDoc, is: environment, at: in(func(p *Plugin) *map[string]Text { return &p.Env })},
	{name: "pass_env", doc: passDoc, is: variableNames, at: in(func(p *Plugin) *[]string { return &p.PassEnv })},
	{name: "start_timeout", doc: "How long the start of a process may take.", def: "10s", is: period(aDuration, true), at: in(func(p *Plugin) *time.Duration { return &p.StartTimeout })},
	{name: "grace", doc: "The time from the request to end until the kill.", def: "10s", is: period(aDuration, false), at: in(func(p *Plugin) *time.Duration { return &p.Grace })},
	{name: "liveness", doc: "How long a process may be silent until it counts as hung and is killed. The engine pings it four times in this time. It is not a limit for tasks: programs answer pings while tasks run. For a program that cannot, such as a simple script, set more than its longest task takes, or `off`.", def: "1m", is: liveness(), at: in(func(p *Plugin) *time.Duration { return &p.Liveness })},
	{name: "processes", doc: "The number of processes of the program.", is: processesTable, at: in(func(p *Plugin) *Processes { return &p.Processes })},
	{name: "per_task", doc: "Gives each task a process of its own, which ends with the task. `processes.min` processes are started ahead; `slots` and `replace` have no effect.", def: "false", is: boolean(), at: in(func(p *Plugin) *bool { return &p.PerTask })},
	{name: "replace", doc: "The conditions for the replacement of a process. When the new process is ready, the old one gets no more tasks and ends after its running tasks.", is: replaceTable, at: in(func(p *Plugin) *Replace { return &p.Replace })},
	{name: "user", doc: userDoc, is: words("the name of a user", notEmpty), at: in(func(p *Plugin) *string { return &p.User })},
	{name: "sha256", doc: "Files, relative to the directory of this file, and the SHA-256 of each. No process starts while a file differs.", is: table[string]{of: "files", keys: notEmpty, likely: "FILE", is: words("64 hexadecimal digits", isSHA256)}, at: in(func(p *Plugin) *map[string]string { return &p.SHA256 })},
	{name: "limits", doc: "The resources of a process and of all processes that it starts. " + limitsNeed, is: boundsTable, at: in(func(p *Plugin) *Limits { return &p.Limits })},
	{name: "may_write", doc: writesDoc, otherwise: "none", is: keyPatterns, at: in(func(p *Plugin) *[]string { return &p.Documents.MayWrite })},
	{name: "may_read", doc: readsDoc, otherwise: "none", is: keyPatterns, at: in(func(p *Plugin) *[]string { return &p.Documents.MayRead })},
}}

const maxProcesses = 1000

var processesTable = &object{what: "processes", fields: []field{
	{name: "min", doc: "The least number of processes. With 0 there is no process between tasks.", def: "1", is: whole[int](0, maxProcesses, "a number"), at: in(func(p *Processes) *int { return &p.Min })},
	{name: "max", doc: "The largest number of processes, while tasks find no slot.", def: "1", is: whole[int](1, maxProcesses, "a number"), at: in(func(p *Processes) *int { return &p.Max })},
	{name: "idle", doc: "A process beyond `min` ends after it had nothing to do for this time.", def: "30s", is: period(aDuration, true), at: in(func(p *Processes) *time.Duration { return &p.Idle })},
}}

var replaceTable = &object{what: "replace", fields: []field{
	{name: "tasks", doc: "After this number of tasks. 0 is never.", def: "0", is: whole[int](0, maxCount, "a number"), at: in(func(r *Replace) *int { return &r.Tasks })},
	{name: "age", doc: "At this age. 0s is never.", def: "0s", is: period(aDuration, false), at: in(func(r *Replace) *time.Duration { return &r.Age })},
	{name: "memory", doc: "When it holds more memory than this (on Linux). 0B is never.", def: "0B", is: size(0, 1<<40, "a size, such as 500MiB"), at: in(func(r *Replace) *int { return &r.RSS })},
}}

var boundsTable = &object{what: "limits", fields: []field{
	{name: "memory", doc: "Memory. A process that needs more is killed. 0B is no limit.", def: "0B", is: size(0, 1<<40, "a size, such as 500MiB"), at: in(func(l *Limits) *int { return &l.Memory })},
	{name: "cpu", doc: "Cores. A process that needs more is slowed down. 0 is no limit.", def: "0", is: fraction(0, 1000, "a number, such as 1.5"), at: in(func(l *Limits) *float64 { return &l.CPU })},
	{name: "processes", doc: "Processes and threads. A process that needs more cannot start them. 0 is no limit.", def: "0", is: whole[int](0, maxCount, "a number"), at: in(func(l *Limits) *int { return &l.Processes })},
}}

var execTable = &object{what: "a handler with exec", fields: []field{
	{name: "exec", doc: "The command and its arguments, run once for each attempt. Its output is the result. A command with a slash is relative to the directory of the file. `${...}` is not replaced.", required: true, is: command, at: in(func(e *Exec) *[]string { return &e.Command })},
	{name: "payload", doc: "How the command gets the payload: on `stdin`, as `args` after the others, or on `stdin` in an [`envelope`](handlers-builtin.md#the-envelope). For `args` it must be a JSON list of strings.", def: "stdin", is: oneOf(nil, option[Payload]{"stdin", PayloadStdin}, option[Payload]{"args", PayloadArgs}, option[Payload]{"envelope", PayloadEnvelope}), at: in(func(e *Exec) *Payload { return &e.Payload })},
	{name: "dir", doc: dirDoc, def: ".", is: words("a path", notEmpty), at: in(func(e *Exec) *string { return &e.Dir })},
	{name: "env", doc: envDoc, is: environment, at: in(func(e *Exec) *map[string]Text { return &e.Env })},
	{name: "pass_env", doc: passDoc, is: variableNames, at: in(func(e *Exec) *[]string { return &e.PassEnv })},
	{name: "max_output", doc: "The largest output. More is an error, not a truncated result.", def: "64KiB", is: size(0, 1<<30, "a size, such as 64KiB"), at: in(func(e *Exec) *int { return &e.MaxOutput })},
	{name: "max_answer", doc: "The largest [answer document](handlers-builtin.md#the-answer-document), by which the command says that its task waits, runs again or adds tasks. More is an error. With 0B the command cannot write one.", def: "1MiB", is: size(0, 1<<30, "a size, such as 64KiB"), at: in(func(e *Exec) *int { return &e.MaxAnswer })},
	{name: "may_add", doc: addDoc, otherwise: "none", is: typePatterns, at: in(func(e *Exec) *[]string { return &e.MayAdd })},
	{name: "may_signal", doc: signalDoc, otherwise: "none", is: typePatterns, at: in(func(e *Exec) *[]string { return &e.MaySignal })},
	{name: "may_write", doc: writeDoc, otherwise: "none", is: keyPatterns, at: in(func(e *Exec) *[]string { return &e.MayWrite })},
	{name: "grace", doc: "The time from the request to end until the kill.", def: "10s", is: period(aDuration, false), at: in(func(e *Exec) *time.Duration { return &e.Grace })},
	{name: "user", doc: userDoc, is: words("the name of a user", notEmpty), at: in(func(e *Exec) *string { return &e.User })},
	{name: "limits", doc: "The resources of one run of the command and of all processes that it starts. " + limitsNeed, is: boundsTable, at: in(func(e *Exec) *Limits { return &e.Limits })},
}}

var httpTable = &object{what: "a handler with http", fields: []field{
	{name: "http", doc: "The request that is sent for each attempt. The body of the answer is the result.", required: true, is: requestTable, at: in(func(h *HTTP) *HTTP { return h })},
}}

var splitTable = &object{what: "a handler with split", fields: []field{
	{name: "split", doc: "Other handlers and their weights, such as two versions of a plugin: each gets its share of the tasks. A task stays with its handler for all attempts. The header `taskengine-handler` of a task selects a handler, even one with the weight 0.", required: true, is: table[int]{of: "handlers", keys: isName, likely: "NAME", is: whole[int](0, maxCount, "a number")}, at: in(func(h *Handler) *map[string]int { return &h.Split })},
}}

var remoteTable = &object{what: "a handler with remote", fields: []field{
	{name: "remote", doc: "The workers that may run the tasks: programs that connect to the API and that their users start and stop. A worker has to serve all types of the handler.", required: true, is: workersTable, at: in(func(h *Handler) *Remote { return h.Remote })},
}}

var workersTable = &object{what: "remote", fields: []field{
	{name: "slots", doc: "The largest number of tasks that one worker gets at once. 0 leaves it to the worker. Tasks without a slot wait in the engine: they have not begun.", def: "0", is: whole[int](0, 1<<16, "a number"), at: in(func(r *Remote) *int { return &r.Slots })},
	{name: "labels", doc: "Labels that a worker has to have, with these values. So several handlers, such as the shares of a `split`, get workers of their own.", otherwise: "none", is: table[string]{of: "labels", keys: notEmpty, likely: "LABEL", is: words("string", notEmpty)}, at: in(func(r *Remote) *map[string]string { return &r.Labels })},
	{name: "reconnect", doc: "How long the tasks of a worker are kept after its connection breaks. If it connects again within this time, it goes on with them. Otherwise they run elsewhere. With 0s they are not kept. A node that is alone with its store waits as long after its start before it runs interrupted tasks again, because workers may have their answers.", def: "5s", is: period(aDuration, false), at: in(func(r *Remote) *time.Duration { return &r.Reconnect })},
	{name: "liveness", doc: "How long a worker may be silent until it is cut off and its tasks run elsewhere. The node pings it four times in this time. It is not a limit for tasks.", def: "10s", is: period(aDuration, true), at: in(func(r *Remote) *time.Duration { return &r.Liveness })},
	{name: "grace", doc: "The time after the request to end a task during which the answer of its worker still counts.", def: "10s", is: period(aDuration, false), at: in(func(r *Remote) *time.Duration { return &r.Grace })},
	{name: "may_write", doc: writesDoc, otherwise: "none", is: keyPatterns, at: in(func(r *Remote) *[]string { return &r.Documents.MayWrite })},
	{name: "may_read", doc: readsDoc, otherwise: "none", is: keyPatterns, at: in(func(r *Remote) *[]string { return &r.Documents.MayRead })},
}}

var requestTable = &object{what: "http", fields: []field{
	{name: "url", doc: "The URL.", required: true, is: httpURL(), at: in(func(h *HTTP) *Text { return &h.URL })},
	{name: "method", doc: "The method.", def: "POST", is: oneOf(nil, option[string]{"POST", "POST"}, option[string]{"PUT", "PUT"}, option[string]{"PATCH", "PATCH"}), at: in(func(h *HTTP) *string { return &h.Method })},
	{name: "headers", doc: "Headers to send, in addition to the headers that name the task.", is: table[Text]{of: "strings", keys: isHeader, likely: "HEADER", is: guarded{secret("string in one line", isHeaderValue), masked}}, at: in(func(h *HTTP) *map[string]Text { return &h.Headers })},
	{name: "timeout", doc: "How long one request may take, including its answer.", def: "10s", is: period(aDuration, true), at: in(func(h *HTTP) *time.Duration { return &h.Timeout })},
	{name: "max_response", doc: "The largest answer. A larger one is an error, not a truncated result.", def: "64KiB", is: size(0, 1<<30, "a size, such as 64KiB"), at: in(func(h *HTTP) *int { return &h.MaxResponse })},
	{name: "envelope", doc: "Sends the payload in an [envelope](handlers-builtin.md#the-envelope), a JSON document that also has the checkpoint, the signal that ended a wait, and the ends of children.", def: "false", is: boolean(), at: in(func(h *HTTP) *bool { return &h.Envelope })},
	{name: "may_add", doc: addDoc, otherwise: "none", is: typePatterns, at: in(func(h *HTTP) *[]string { return &h.MayAdd })},
	{name: "may_signal", doc: signalDoc, otherwise: "none", is: typePatterns, at: in(func(h *HTTP) *[]string { return &h.MaySignal })},
	{name: "may_write", doc: writeDoc, otherwise: "none", is: keyPatterns, at: in(func(h *HTTP) *[]string { return &h.MayWrite })},
}}

var delaysShape = fixedDelays{sequence[time.Duration]{is: period(aDuration, false), least: 1, most: 1000}}

// fixedDelays puts a list of durations into a backoff.
type fixedDelays struct{ sequence[time.Duration] }

func (f fixedDelays) decode(d *decoder, n *node, into any) {
	b := into.(*policy.Backoff)
	b.Delays = []time.Duration{0} // for a list that cannot be read
	f.sequence.decode(d, n, &b.Delays)
}

// address is host:port, or none.
func address() value[string] {
	const example = "127.0.0.1:7420"
	return value[string]{want: "an address, such as " + example, json: orReference(document{"type": "string"}), parse: func(t text) (string, error) {
		if t.value == "none" {
			return "", nil
		}
		host, port, err := net.SplitHostPort(t.value)
		if err != nil {
			return "", fmt.Errorf("%.60q is not an address; write host:port, such as %s, or none", t.value, example)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", fmt.Errorf("the port %.20q is not a number of 0 to 65535", port)
		} else if strings.ContainsAny(host, " /@") {
			return "", fmt.Errorf("%.60q is not the name of a host", host)
		} else {
			return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
		}
	}}
}

// longestSocket is how many bytes the path of a Unix socket may have on every system.
const longestSocket = 103

func checkSocket(path string) error {
	if path == "" || len(path) > longestSocket {
		return fmt.Errorf("has %d bytes, of 1 to %d that systems allow in the path of a socket", len(path), longestSocket)
	}
	return nil
}

// CheckPlace returns an error if s is not the place of a value in a task. A limit can count by such a
// value.
func CheckPlace(s string) error { return place.CheckTask(s) }

// isRedactable accepts places that can be redacted.
func isRedactable(s string) error {
	_, err := redact.Parse(s)
	return err
}

// isSearchable accepts places that can be searched.
func isSearchable(s string) error {
	_, err := filter.ParseAttribute(s)
	return err
}

// isUsersVariable accepts the names of variables that the engine does not set itself.
func isUsersVariable(s string) error {
	if strings.HasPrefix(s, "TASKENGINE_") {
		return errors.New("is a variable that the engine sets; remove it")
	}
	return isVariableName(s)
}

// isTypePattern accepts the name of a type, and the beginning of names with an asterisk behind it.
func isTypePattern(s string) error {
	begin, isPrefix := strings.CutSuffix(s, "*")
	if isPrefix && begin == "" {
		return nil
	}
	if err := isName(begin); err != nil {
		return fmt.Errorf("%.40q %w; a * may follow them", s, err)
	}
	return nil
}

func isVariableName(s string) error {
	if !isVariable(s) {
		return errors.New("is not the name of a variable; use letters, digits and _, no digit first")
	}
	return nil
}

var sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func isSHA256(s string) error {
	if !sha256Text.MatchString(s) {
		return errors.New("is not a SHA-256 of 64 hexadecimal digits; sha256sum FILE prints it")
	}
	return nil
}

func noNUL(s string) error {
	if strings.Contains(s, "\x00") {
		return errors.New("has a NUL character, which no environment can hold; remove it")
	}
	return nil
}

func isURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL; write it such as https://example.com/tasks")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("does not begin with http:// or https://; write it such as https://example.com/tasks")
	case u.Hostname() == "":
		return errors.New("names no host; write it such as https://example.com/tasks")
	case u.Fragment != "":
		return errors.New("has a fragment (#...), which is never sent; remove it")
	}
	return nil
}

// isCollector accepts the URL of a collector of spans.
func isCollector(s string) error {
	if err := isURL(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err == nil && (u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "") {
		return errors.New("has more than a host and a port; write it such as http://127.0.0.1:4317")
	}
	return nil
}

// isAdvertised accepts an address that another machine can connect to.
func isAdvertised(s string) error {
	if s == AdvertiseNone {
		return nil
	}
	host := s
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("is no URL of http or https; write it such as https://node1.example.com:7420")
		}
		if u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
			return errors.New("has more than a host and a port; write it such as https://node1.example.com:7420")
		}
		host = u.Host
	}
	name, port, err := net.SplitHostPort(host)
	if number, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || number == 0 {
		return errors.New("has no port; write it such as node1.example.com:7420")
	}
	if anyHost(name) || strings.ContainsAny(name, " /@") {
		return errors.New("names no machine; write the host at which the other nodes reach this one, such as node1.example.com:7420")
	}
	return nil
}

func isToken(s string) error {
	const least = 16
	switch {
	case len(s) < least:
		return fmt.Errorf("is shorter than %d characters, so that it could be guessed; write a longer one", least)
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("has a space or a character beyond ASCII, which the header Authorization cannot hold; remove it")
	}
	return nil
}

// ownHeaders are the headers that the handler sets itself, and the headers of the connection.
var ownHeaders = []string{
	"idempotency-key", "traceparent", "tracestate", "content-length", "host", "connection", "transfer-encoding",
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func isHeader(s string) error {
	if !headerName.MatchString(s) {
		return errors.New("is not the name of a header; use letters, digits and -")
	}
	lower := strings.ToLower(s)
	if strings.HasPrefix(lower, "taskengine-") {
		return errors.New("is a header of the engine's own; remove it")
	}
	for _, own := range ownHeaders {
		if lower == own {
			return errors.New("is a header that the engine sets; remove it")
		}
	}
	return nil
}

func isHeaderValue(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return errors.New("has a line break or control character, which no header can hold; remove it")
	}
	return nil
}
