package supervise

import (
	"os"
	"os/exec"
)

// Pipes are this process's ends of the pipes to a program that was started. Each owner closes them.
type Pipes struct {
	Stdin          *os.File // for writing; nil if the program has its whole input
	Stdout, Stderr *os.File // for reading
}

// StartPiped connects the standard input, output and error of cmd to pipes and starts it by calling start, which is
// usually cmd.Start. If input is not nil, it is the whole standard input in place of a pipe: cmd reads all of it even if this process
// dies. StartPiped does nothing else: the caller waits for cmd and closes the pipes. No pipe is left open if it returns an error.
func StartPiped(cmd *exec.Cmd, input []byte, start func(*exec.Cmd) error) (Pipes, error) {
	var read, write [3]*os.File
	defer func() { closeAll(read[0], write[1], write[2]) }() // the child has its own copies
	for i := range read {
		var err error
		if i == 0 && input != nil {
			read[i], err = inputFile(input)
		} else {
			read[i], write[i], err = os.Pipe()
		}
		if err != nil {
			closeAll(write[0], read[1], read[2])
			return Pipes{}, err
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read[0], write[1], write[2]
	if err := start(cmd); err != nil {
		closeAll(write[0], read[1], read[2])
		return Pipes{}, err
	}
	return Pipes{Stdin: write[0], Stdout: read[1], Stderr: read[2]}, nil
}

// Close closes all of the pipes. Pipes that are closed already are skipped.
func (p Pipes) Close() { closeAll(p.Stdin, p.Stdout, p.Stderr) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close() // a nil file returns an error
	}
}
