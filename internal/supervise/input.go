package supervise

import (
	"fmt"
	"io"
	"os"
)

// inputFile returns a file that has data, to be read from its beginning. It has no name. The caller closes it.
func inputFile(data []byte) (f *os.File, err error) {
	if f, err = unnamedFile(); err != nil {
		return nil, fmt.Errorf("make a file for the standard input: %w", err)
	}
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write the standard input to a file: %w", err)
	}
	return f, nil
}

// removedFile returns a temporary file that was removed.
func removedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "taskengine-input-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
