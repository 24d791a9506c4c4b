package conform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// exitWithin is how long a program may take to exit.
const exitWithin = 5 * time.Second

// The names of checks that others need.
const (
	shakesHands  = "the first that it prints is the handshake"
	rightVersion = "the handshake names version 1 of the protocol"
	saysHello    = "its first frame is a hello"
	givesCredits = "it gives credits, at least one and no more than it has slots"
)

// startChecks returns the checks of the start of a process.
func startChecks() []check { return slices.Concat(handshakeChecks(), helloChecks()) }

func handshakeChecks() []check {
	return []check{
		{
			name: "started by hand, it explains itself and exits with status 1",
			asks: "without the cookie TASKENGINE_HANDLER a person started the program: explain and exit with status 1",
			see:  seeByHand,
		},
		{
			name: shakesHands,
			asks: "one line, with nothing printed before, soon after the start: 1|1|unix|/path/of/the/socket|grpc| or 1|1|stdio||json|",
			see:  seeHandshake,
		},
		{
			name: rightVersion, needs: []string{shakesHands},
			asks: "the second field is one of the versions in PLUGIN_PROTOCOL_VERSIONS: 1",
			see: func(x *exam) error {
				if v := x.shaken.version; v != strconv.Itoa(wire.Protocol) {
					return fmt.Errorf("it names version %.40q", v)
				}
				return nil
			},
		},
		{
			name: "its socket is in the directory that it was given", needs: []string{shakesHands, rightVersion},
			asks: "it listens on a unix socket in the directory that PLUGIN_UNIX_SOCKET_DIR names, with a path of at most 103 bytes",
			see:  seeSocket,
		},
	}
}

func helloChecks() []check {
	return []check{
		{
			name: saysHello, needs: []string{shakesHands, rightVersion},
			asks: "it serves taskengine.handler.v1.Handler/Work, and answers the welcome with a hello in its first frame",
			see:  seeHello,
		},
		helloVersion(), helloTypes(),
		{
			name: "it has at least one slot, and no more than the welcome says", needs: []string{saysHello},
			asks: "hello.slots is at least 1, and at most welcome.slots unless that is 0",
			see: func(x *exam) error {
				if n := x.hello.GetSlots(); n < 1 || n > fewSlots {
					return fmt.Errorf("the welcome says %d slots, the hello %d", fewSlots, n)
				}
				return nil
			},
		},
		{
			name: "it has slots if the welcome leaves their number to it", needs: []string{saysHello},
			asks: "welcome.slots may be 0; then hello.slots is the program's own default, at least 1",
			see:  seeOwnSlots,
		},
		{
			name: givesCredits, needs: []string{saysHello},
			asks: "the frame of the hello gives the first credits, as many as there are slots",
			see:  seeFirstCredits,
		},
	}
}

func helloVersion() check {
	return check{
		name: "the hello speaks version 1 of the protocol", needs: []string{saysHello},
		asks: "hello.protocol is 1",
		see: func(x *exam) error {
			if v := x.hello.GetProtocol(); v != wire.Protocol {
				return fmt.Errorf("hello.protocol is %d", v)
			}
			return nil
		},
	}
}

func helloTypes() check {
	return check{
		name: "the hello names the task types that it serves", needs: []string{saysHello},
		asks: "hello.types has at least one type, none of them empty and none twice",
		see:  seeTypes,
	}
}

func seeByHand(x *exam) error {
	p, err := x.start(false)
	if err != nil {
		return err
	}
	defer p.kill()
	p.drainOutput()
	if !p.wait(x.Patience) { // it includes the time for the start
		return fmt.Errorf("it was still running after %v%s", x.Patience, p.lastErrors())
	}
	p.waitForOutput()
	switch code := p.cmd.ProcessState.ExitCode(); {
	case code != 1:
		return fmt.Errorf("it ended (%v)%s", p.cmd.ProcessState, p.lastErrors())
	case textOf(p.errors)+textOf(p.printed) == "":
		return errors.New("it ended without a word")
	}
	return nil
}

func seeHandshake(x *exam) (err error) {
	x.opening, x.shaken, err = x.startAndShakeHands()
	if err == nil {
		x.report.Transport = x.shaken.transport
	}
	return err
}

func seeSocket(x *exam) error {
	if x.shaken.transport == "json" {
		return reason("it has no socket: it speaks by its standard input and output")
	}
	path := x.shaken.address
	want, err := filepath.EvalSymlinks(x.opening.dir)
	if err != nil {
		return err
	}
	got, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("it listens at %.200q: %w", path, err)
	}
	if got != want {
		return fmt.Errorf("it listens at %.200q, which is not in %s", path, x.opening.dir)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("there is no socket at %.200q", path)
	}
	return nil
}

func seeHello(x *exam) (err error) {
	if x.opening == nil { // the check of the socket failed
		if x.opening, x.shaken, err = x.startAndShakeHands(); err != nil {
			return err
		}
	}
	s, err := x.connect(x.opening, x.shaken, plain.welcome())
	if s != nil {
		x.opening, x.sessions[plain] = nil, s
	}
	if err != nil {
		return err
	}
	if x.hello = s.first.GetHello(); x.hello == nil {
		return fmt.Errorf("its first frame has no hello, but is {%.200v}", s.first)
	}
	x.meet(x.hello)
	x.firstCredits = int(s.first.GetCredits())
	return nil
}

// meet stores the description of the program in its hello.
func (x *exam) meet(h *wire.Hello) {
	x.hello, x.report.SDK = h, h.GetSdk()
	if v := h.GetSdkVersion(); v != "" {
		x.report.SDK += " " + v
	}
	x.report.Version, x.report.Types = h.GetVersion(), h.GetTypes()
}

func seeTypes(x *exam) error {
	types := slices.Sorted(slices.Values(x.hello.GetTypes()))
	switch {
	case len(types) == 0:
		return errors.New("it names none")
	case types[0] == "":
		return errors.New("one of its types is empty")
	case len(slices.Compact(slices.Clone(types))) < len(types):
		return fmt.Errorf("it names a type twice: %.200q", types)
	}
	return nil
}

func seeOwnSlots(x *exam) error {
	w := plain.welcome()
	w.Slots = 0
	s, err := x.open(w)
	if err != nil {
		return err
	}
	defer x.endSession(s)
	if s.first.GetHello().GetSlots() == 0 {
		return errors.New("hello.slots is 0")
	}
	return nil
}

func seeFirstCredits(x *exam) error {
	if n := x.firstCredits; n < 1 || n > int(x.hello.GetSlots()) {
		return fmt.Errorf("it gives %d credits with its hello, and has %d slots", n, x.hello.GetSlots())
	}
	return nil
}
