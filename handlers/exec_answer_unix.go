//go:build unix

package handlers

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// answerBuffer is how many bytes of a document are read at once.
const answerBuffer = 4 << 10

// answerPipe is the pipe through which a command writes its document. Its methods may be called for nil, which is no pipe.
type answerPipe struct {
	from, to *os.File
	copies   sync.WaitGroup // of the goroutine that reads
	document head           // written by that goroutine, then by end
}

// openAnswer adds a descriptor for the document to a command that is about to start. It returns nil if there is to be none.
func (e *Exec) openAnswer(cmd *exec.Cmd) (*answerPipe, error) {
	if e.config.MaxAnswer == 0 {
		return nil, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	const first = 3 // the first of ExtraFiles, after the standard ones
	cmd.Env = append(cmd.Env, ownVariables+"ANSWER_FD="+strconv.Itoa(first+len(cmd.ExtraFiles)))
	cmd.ExtraFiles = append(cmd.ExtraFiles, to)
	return &answerPipe{from: from, to: to, document: head{max: e.config.MaxAnswer}}, nil
}

// begin begins to read. It is called when the command has the descriptor, or was not started.
func (p *answerPipe) begin() {
	if p == nil {
		return
	}
	p.to.Close()
	p.copies.Go(func() {
		// Without the buffer, and with the methods of a file, io.Copy takes 32 KiB, and most commands write nothing.
		io.CopyBuffer(&p.document, struct{ io.Reader }{p.from}, make([]byte, answerBuffer))
	})
}

// end returns the document. The command has ended, so the rest of it is in the pipe. end does not wait for other processes that
// hold the descriptor.
func (p *answerPipe) end() head {
	if p == nil {
		return head{}
	}
	p.from.SetReadDeadline(time.Now()) // the goroutine ends
	p.copies.Wait()
	p.from.SetReadDeadline(time.Time{})
	if raw, err := p.from.SyscallConn(); err == nil {
		raw.Read(func(fd uintptr) bool { p.document.drain(int(fd)); return true })
	}
	p.from.Close()
	return p.document
}

// drain reads the bytes that a descriptor has at present, at most a little more than h keeps.
func (h *head) drain(fd int) {
	for buffer := make([]byte, answerBuffer); !h.over; {
		n, err := syscall.Read(fd, buffer)
		switch {
		case err == syscall.EINTR:
		case n <= 0 || err != nil:
			return
		default:
			h.Write(buffer[:n])
		}
	}
}
