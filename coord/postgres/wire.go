package postgres

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/hints"
	"github.com/taskengine/taskengine/task"
)

// The kinds of payloads. Others are ignored.
//
//	w:3,17       tasks may be ready in these shards; any statement may notify it
//	k:3:TYPE:KEY a task of this shard, type and ordering key was added, each in base64; it is behind
//	t:ID:TEXT    hints, in base64, from the process with this ID
//	m:TOPIC:TEXT a message and its topic, each in base64
//	c:WORD       a change that a heartbeat or a watch should read
const (
	kindWake    = "w"
	kindKey     = "k"
	kindHints   = "t"
	kindMessage = "m"
	kindControl = "c"
)

// maxPayload is a little less than the 7999 bytes that PostgreSQL allows.
const maxPayload = 7900

var errGarbage = errors.New("not a notification of a node")

// pack encodes hints into as few payloads as possible, see [hints.Pack].
func pack(from string, hs []task.Hint) (payloads []string) {
	prefix := kindHints + ":" + from + ":"
	for _, piece := range hints.Pack(hs, base64.RawStdEncoding.DecodedLen(maxPayload-len(prefix))) {
		payloads = append(payloads, prefix+base64.RawStdEncoding.EncodeToString(piece))
	}
	return payloads
}

// unpack decodes a payload of pack without its prefix. With an error it returns the hints before
// the first mistake.
func unpack(text string) ([]task.Hint, error) {
	piece, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return hints.Unpack(piece)
}

// wakes decodes a payload of kindWake. A text that is not a list of shards stands for all.
func wakes(text string) []task.Hint {
	var ts []task.Hint
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil {
			return []task.Hint{coord.WakeAll()}
		}
		ts = append(ts, coord.Wake(uint16(n)))
	}
	return ts
}

// added decodes a payload of kindKey.
func added(text string) (h task.Hint, err error) {
	words := strings.Split(text, ":")
	if len(words) != 3 {
		return h, errGarbage
	}
	shard, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		return h, err
	}
	typ, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return h, err
	}
	key, err := base64.StdEncoding.DecodeString(words[2])
	if err != nil {
		return h, err
	}
	return task.Hint{About: task.AboutKey, OrderingKey: string(key), Trigger: task.Trigger{Queue: task.Queue{Type: string(typ)}, Shard: uint16(shard)}}, nil
}
