package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/scripttest"
)

// TestScripts plays the stories in testdata. See story for their commands.
func TestScripts(t *testing.T) {
	scripttest.PlayAll(t, func() scripttest.Machine { return new(story).do })
}

// story is the state of one script: a machine that is stored after every command, and targets that
// answer when the script says so.
type story struct {
	config   Config
	machine  *Machine
	stored   []byte
	now      time.Time
	silences []Silence
	numbers  map[string]int          // of notifications, in the order in which they were sent first
	sending  map[string]Notification // by target
	out      strings.Builder
}

var beginning = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// do does a command:
//
//	world                    starts with the rules and targets in the lines below
//	look KIND...             an observation: all of these kinds, with the facts in the lines below
//	advance D                time passes, with a Tick at each time of Wake
//	accepted TARGET, refused TARGET
//	                         the answer to the notification under way
//	silence ID [rule=R] [LABEL=PATTERN] for=D, unsilence ID
//	crash                    the machine is gone, and the next one gets the stored state; lines replace the world
//	alerts                   prints the alerts
func (s *story) do(command string, a scripttest.Args, lines []string) (out string, err error) {
	s.out.Reset()
	switch command {
	case "world":
		s.now, s.stored, s.silences, s.numbers = beginning, nil, nil, map[string]int{}
		err = s.start(lines)
	case "crash":
		if len(lines) == 0 {
			lines = nil
		}
		err = s.start(lines)
	case "look":
		err = s.look(a, lines)
	case "advance":
		s.advance(a)
	case "accepted", "refused":
		err = s.answer(a.At(0), command == "accepted")
	case "silence":
		err = s.silence(a)
	case "unsilence":
		s.silences = slices.DeleteFunc(s.silences, func(one Silence) bool { return one.ID == a.At(0) })
		s.machine.Silence(s.silences)
	case "alerts":
		for _, one := range s.machine.Alerts() {
			fmt.Fprintf(&s.out, "%s %s %s%s: %s since %v\n", one.Rule, one.Subject, one.Node, one.Detail, one.Status, one.Since.Sub(beginning))
		}
	default:
		err = errors.New("no such command")
	}
	s.step()
	return s.out.String(), err
}

func (s *story) start(lines []string) error {
	if lines != nil {
		s.config = Config{Node: "a"}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		a := scripttest.Args{Words: words[1:]}
		switch words[0] {
		case "rule":
			r := Rule{
				Name: a.At(0), AtLeast: float64(a.Number("at_least", 1)), For: a.Duration("for", 0), GroupWait: a.Duration("wait", 0),
				Interval: a.Duration("interval", 0), Repeat: a.Duration("repeat", 0), Targets: []string{"ops"},
			}
			when, _ := a.Value("when")
			r.When = kindOf(when)
			if match, ok := a.Value("match"); ok {
				r.Match = strings.Split(match, ",")
			}
			if targets, ok := a.Value("targets"); ok {
				r.Targets = strings.Split(targets, ",")
			}
			s.config.Rules = append(s.config.Rules, r)
		case "target":
			s.config.Targets = append(s.config.Targets, Target{
				Name: a.At(0), Rate: Rate{a.Number("count", 0), a.Duration("per", time.Hour)}, GiveUp: a.Duration("give_up", 0),
			})
		default:
			return fmt.Errorf("%s: want rule or target", line)
		}
	}
	s.machine, s.sending = New(s.config), map[string]Notification{}
	if s.stored != nil {
		var state State
		if err := json.Unmarshal(s.stored, &state); err != nil {
			return err
		}
		s.machine.Restore(state)
	}
	s.machine.Silence(s.silences)
	return nil
}

func kindOf(name string) Kind {
	for _, k := range Kinds() {
		if k.String() == name {
			return k
		}
	}
	panic(fmt.Sprintf("%q is no kind", name))
}

func (s *story) look(a scripttest.Args, lines []string) error {
	l := Look{At: s.now}
	for _, word := range a.Words {
		l.Whole = append(l.Whole, kindOf(word))
	}
	for _, line := range lines {
		words := strings.Fields(line)
		of := scripttest.Args{Words: words[1:]}
		f := Fact{Kind: kindOf(words[0]), Value: float64(of.Number("value", 1)), News: int64(of.Number("news", 0)), More: of.Has("more")}
		f.Node, _ = of.Value("node")
		if !strings.Contains(of.At(0), "=") {
			f.Subject = of.At(0)
		}
		l.Facts = append(l.Facts, f)
	}
	s.machine.Look(l)
	return nil
}

func (s *story) advance(a scripttest.Args) {
	d, err := time.ParseDuration(a.At(0))
	if err != nil {
		panic(err)
	}
	end := s.now.Add(d)
	for {
		wake := s.machine.Wake(s.now)
		if wake.IsZero() || wake.After(end) {
			break
		}
		if !wake.After(s.now) {
			panic("the machine wants to wake up at once, again and again")
		}
		s.now = wake
		s.step()
	}
	s.now = end
}

// step makes the due notifications, stores the state, and sends.
func (s *story) step() {
	s.machine.Tick(s.now)
	if state, changed := s.machine.Save(); changed {
		stored, err := json.Marshal(state)
		if err != nil {
			panic(err)
		}
		s.stored = stored
	}
	for _, n := range s.machine.Next(s.now) {
		if s.numbers[n.ID] == 0 {
			s.numbers[n.ID] = len(s.numbers) + 1
		}
		s.sending[n.Target] = n
		repeat := ""
		if n.Repeat {
			repeat = " repeat"
		}
		fmt.Fprintf(&s.out, "%v send %d to %s: %s%s: %s\n", s.now.Sub(beginning), s.numbers[n.ID], n.Target, n.Status, repeat, n.Summary)
		for _, i := range n.Alerts {
			if len(n.Alerts) > 1 {
				fmt.Fprintf(&s.out, "  %s\n", i.Summary)
			}
		}
	}
}

func (s *story) answer(target string, accepted bool) error {
	n, ok := s.sending[target]
	if !ok {
		return errors.New("nothing is being sent to it")
	}
	delete(s.sending, target)
	if accepted {
		s.machine.Sent(n.ID)
	} else if s.machine.Failed(s.now, n.ID) {
		fmt.Fprintf(&s.out, "gave up %d\n", s.numbers[n.ID])
	}
	return nil
}

func (s *story) silence(a scripttest.Args) error {
	one := Silence{ID: a.At(0), Until: s.now.Add(a.Duration("for", 0)), Labels: map[string]string{}}
	for _, word := range a.Words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "for":
		case "rule":
			one.Rule = value
		default:
			one.Labels[name] = value
		}
	}
	s.silences = append(s.silences, one)
	s.machine.Silence(s.silences)
	return nil
}
