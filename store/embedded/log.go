package embedded

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// logLimit bounds postgres.log: at this size its content moves to postgres.log.1.
const logLimit = 8 << 20

// serverLog is the file that the server writes to. The server holds it open for
// appending, also when it outlives us, so it is emptied in place and never
// renamed.
type serverLog struct {
	file *os.File
}

// openLog opens the log of a server that runs as a, and makes it a's: root may
// be a guest in the directory of somebody who starts Flow without root, too.
func openLog(path string, a account) (*serverLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if a.switched {
		err = f.Chown(a.uid, a.gid)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &serverLog{file: f}, nil
}

// trim keeps the log bounded. Lines written between copy and cut are lost.
func (l *serverLog) trim() error {
	if l.size() < logLimit {
		return nil
	}
	old, err := os.OpenFile(l.file.Name()+".1", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(old, io.NewSectionReader(l.file, 0, l.size()))
	if cerr := old.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return l.file.Truncate(0)
}

func (l *serverLog) size() int64 {
	st, err := l.file.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// complaint returns what the server said last since the log had size from.
func (l *serverLog) complaint(from int64) string {
	size := l.size()
	text, err := io.ReadAll(io.NewSectionReader(l.file, max(from, size-16<<10), 16<<10))
	if err != nil {
		return ""
	}
	return complaint(string(text))
}

func (l *serverLog) close() error { return l.file.Close() }

// complaint picks what says why a PostgreSQL program gave up: its first error
// with the remark before it, which tends to hold the detail, else its last line.
func complaint(text string) string {
	var before string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, mark := range []string{"error: ", "FATAL:  ", "PANIC:  ", "could not "} {
			at := strings.Index(line, mark)
			if at < 0 {
				continue
			}
			if mark != "could not " {
				at += len(mark)
			}
			if _, remark, ok := strings.Cut(before, "LOG:  "); ok {
				return line[at:] + " (" + remark + ")"
			}
			return line[at:]
		}
		if line != "" {
			before = line
		}
	}
	return before
}
