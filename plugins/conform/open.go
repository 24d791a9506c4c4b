package conform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// kind is a kind of session that checks share.
type kind uint8

const (
	plain kind = iota // a few slots, no features
	wide              // as many slots as the suite needs
	full              // and all features, too
)

// features are all features that a welcome may list.
var features = []string{"progress", "checkpoint", "children", "rerun", "ended", "wait", "family", "signals", "check", "documents", "after"}

const (
	fewSlots  = 3
	manySlots = 16
)

func (k kind) welcome() *wire.Welcome {
	w := &wire.Welcome{
		Protocol: wire.Protocol, Host: "taskengine handler verify", Name: "examined", Slots: manySlots, MaxResultBytes: maxResult, MaxPayloadBytes: maxPayload,
	}
	switch k {
	case plain:
		w.Slots = fewSlots
	case full:
		w.Features = slices.Clone(features)
	}
	return w
}

// without returns the welcome of a host with all features but one.
func without(feature string) *wire.Welcome {
	w := full.welcome()
	w.Features = slices.DeleteFunc(w.Features, func(f string) bool { return f == feature })
	return w
}

// use returns a session that is shared with other checks.
func (x *exam) use(k kind) (*session, error) {
	if s := x.sessions[k]; s != nil {
		return s, nil
	}
	s, err := x.open(k.welcome())
	if err != nil {
		return nil, err
	}
	x.sessions[k] = s
	return s, nil
}

// open starts the program for one check, which must call endSession.
func (x *exam) open(w *wire.Welcome) (*session, error) {
	if x.Remote {
		return x.openRemote(workerOf(w))
	}
	p, h, err := x.startAndShakeHands()
	if err != nil {
		return nil, err
	}
	s, err := x.connect(p, h, w)
	if err == nil && s.first.GetHello() == nil {
		err = errors.New("its first frame is not a hello")
	}
	if err == nil {
		return s, nil
	}
	if s == nil {
		p.kill()
	} else {
		x.endSession(s)
	}
	return nil, fmt.Errorf("when it was started once more: %w", err)
}

// handshake is the content of the first line.
type handshake struct {
	version, network, address, transport string
}

// parseHandshake parses the first line.
func parseHandshake(line string) (handshake, error) {
	f := strings.Split(line, "|")
	if len(f) != 6 || f[0] != "1" || f[5] != "" {
		return handshake{}, fmt.Errorf("its first line is %.200q", line)
	}
	h := handshake{version: f[1], network: f[2], address: f[3], transport: f[4]}
	switch {
	case h.network == "unix" && h.transport == "grpc" && h.address != "":
	case h.network == "stdio" && h.transport == "json" && h.address == "":
	default:
		return handshake{}, fmt.Errorf("its first line is %.200q", line)
	}
	return h, nil
}

// startAndShakeHands starts the program and reads its handshake.
func (x *exam) startAndShakeHands() (*program, handshake, error) {
	p, err := x.start(true)
	if err != nil {
		return nil, handshake{}, err
	}
	line, err := p.firstLine(x.Patience)
	if err == nil {
		var h handshake
		if h, err = parseHandshake(line); err == nil {
			return p, h, nil
		}
		err = fmt.Errorf("%w%s", err, p.lastErrors())
	}
	p.kill()
	return nil, handshake{}, err
}
