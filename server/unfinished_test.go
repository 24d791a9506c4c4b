package server_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// A client that begins requests and does not finish them loses its connection before they take all memory. Others are served.
func TestUnfinishedRequestsDoNotTakeTheMemoryOfTheNode(t *testing.T) {
	n := newNode(t)
	n.api = listenBoth(t, server.NewAPI(server.APIConfig{Engine: n.engine, MaxRequest: 64 << 20}))
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.api.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := io.WriteString(raw, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(raw, raw)
	var write sync.Mutex
	credit := make(map[uint32]int) // guarded by write: the bytes that each stream may send; 0 is the connection
	more := sync.NewCond(&write)
	over, initial := false, 65535 // guarded by write
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			frame, err := f.ReadFrame()
			write.Lock()
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					if v, ok := frame.Value(http2.SettingInitialWindowSize); ok {
						for stream := range credit {
							if stream != 0 {
								credit[stream] += int(v) - initial
							}
						}
						initial = int(v)
					}
					f.WriteSettingsAck()
				}
			case *http2.WindowUpdateFrame:
				credit[frame.StreamID] += int(frame.Increment)
			}
			over = over || err != nil
			more.Broadcast()
			write.Unlock()
			if err != nil {
				return
			}
		}
	}()
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	write.Lock()
	defer write.Unlock()
	credit[0] += 65535
	sent, part := 0, make([]byte, 16<<10)
	for stream := uint32(1); stream < 40 && !over; stream += 2 {
		header.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/taskengine.v1.TaskService/Submit"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"user-agent", "grpc-python/1"}, {"te", "trailers"}} {
			encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header.Bytes(), EndHeaders: true})
		const size = 60<<20 + 100_000
		credit[stream] += initial
		f.WriteData(stream, false, binary.BigEndian.AppendUint32([]byte{0}, size))
		for left := size - 50_000; left > 0 && !over; {
			for !over && min(credit[0], credit[stream]) < len(part) {
				more.Wait()
			}
			if f.WriteData(stream, false, part) != nil {
				over = true
			}
			left, sent, credit[0], credit[stream] = left-len(part), sent+len(part), credit[0]-len(part), credit[stream]-len(part)
		}
	}
	if !over || sent > 256<<20 {
		t.Errorf("the client has sent %d bytes of unfinished requests, and its connection has ended: %v", sent, over)
	}
	n.submit(t, &taskenginev1.NewTask{Type: "idle"})
}
