package node

import (
	"errors"
	"testing"

	"github.com/taskengine/taskengine/config"
)

func TestTheAddressForOtherNodesFollowsTheListener(t *testing.T) {
	encrypted := config.ServerTLS{Cert: "node.pem"}
	for _, c := range []struct {
		from config.Listener
		at   string
		want string
	}{
		{config.Listener{Listen: "127.0.0.1:0"}, "127.0.0.1:4711", "http://127.0.0.1:4711"},
		{config.Listener{Listen: "10.0.0.7:7420", TLS: encrypted}, "10.0.0.7:7420", "https://10.0.0.7:7420"},
		{config.Listener{Listen: ":7420"}, "[::]:7420", "http://here:7420"},
		{config.Listener{Listen: "0.0.0.0:7420"}, "0.0.0.0:7420", "http://here:7420"},
		{config.Listener{Listen: "[::]:0"}, "[::]:4711", "http://here:4711"},
		{config.Listener{Listen: "node1:7420"}, "10.0.0.7:7420", "http://node1:7420"},
		{config.Listener{Listen: ":7420", Advertise: "node1:80", TLS: encrypted}, "[::]:7420", "https://node1:80"},
		{config.Listener{Listen: ":7420", Advertise: "[10.0.0.7]:7420"}, "[::]:7420", "http://10.0.0.7:7420"},
		{config.Listener{Listen: ":7420", Advertise: "[fd00::7]:7420"}, "[::]:7420", "http://[fd00::7]:7420"},
		{config.Listener{Listen: ":7420", Advertise: "https://proxy:443/"}, "[::]:7420", "https://proxy:443"},
		{config.Listener{Listen: ":7420", Advertise: "none"}, "[::]:7420", ""},
		{config.Listener{}, "", ""},
	} {
		if got := advertised(c.from, c.at, func() (string, error) { return "here", nil }); got != c.want {
			t.Errorf("%+v at %s: got %q, want %q", c.from, c.at, got, c.want)
		}
	}
	if got := advertised(config.Listener{Listen: ":1"}, "[::]:1", func() (string, error) { return "", errors.New("unknown") }); got != "http://localhost:1" {
		t.Errorf("without a name of the machine: %q", got)
	}
}
