package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"grattoir/device/control"
	"grattoir/device/sim"
)

// counterKey finds the devices of a script.
type counterKey struct{}

type simulated struct {
	glass *sim.Scanner
	paper *sim.Printer
}

const patience = 20 * time.Second // for one answer of the machine, however busy

// openCounter [reads] makes a scanner and a printer, scanner and printer in the script's folder.
// With the word reads, whoever has the slip in his hand scans its mark at once.
func openCounter(ts *testscript.TestScript, _ bool, args []string) {
	glass, err := sim.NewScanner(ts.MkAbs("scanner"))
	ts.Check(err)
	paper, err := sim.NewPrinter(ts.MkAbs("printer"), sim.PrinterOptions{Columns: 48})
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	ts.Defer(func() {
		cancel()
		<-done
		_ = glass.Close()
		_ = paper.Close()
	})
	*ts.Value(counterKey{}).(*simulated) = simulated{glass, paper}
	mark := regexp.MustCompile(`GRATTOIR-TEST-[A-Za-z]{10}`)
	go func() {
		defer close(done)
		for {
			slip, err := paper.Next(ctx)
			if err != nil {
				return
			}
			if m := mark.FindString(slip.Text()); m != "" && len(args) > 0 {
				_ = glass.Scan(m) // a cable that is out is the script's wish
			}
		}
	}()
}

// device WORDS does something to the devices: paper out, paper low, paper ok, scanner unplug.
func device(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value(counterKey{}).(*simulated)
	switch strings.Join(args, " ") {
	case "paper out":
		d.paper.Set(func(s *sim.State) { s.PaperEnd = true })
	case "paper low":
		d.paper.Set(func(s *sim.State) { s.PaperNearEnd = true })
	case "paper ok":
		d.paper.Set(func(s *sim.State) { s.PaperEnd, s.PaperNearEnd = false, false })
	case "scanner unplug":
		ts.Check(d.glass.Unplug())
	default:
		ts.Fatalf("nothing is called %q", args)
	}
}

// answers SOCKET [scanner=CODE] [printer=CODE] waits until the daemon answers with its
// devices ready, or with these faults.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	want := map[string]string{}
	for _, a := range args[1:] {
		name, code, _ := strings.Cut(a, "=")
		want[name] = code
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := control.NewClient(ts.MkAbs(args[0]))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := client.Status(ctx)
		if err == nil && codeOf(st.Scanner) == want["scanner"] && codeOf(st.Printer) == want["printer"] && codeOf(st.Paper) == want["paper"] && st.Ledger == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("the daemon is not so: %v, scanner %q, printer %q", err, codeOf(st.Scanner), codeOf(st.Printer))
		}
	}
}

func codeOf(f *control.Fault) string {
	if f == nil {
		return ""
	}
	return f.Code
}

// locked FILE holds a ledger's lock as a program does that has it open.
func locked(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_RDWR, 0o600)
	ts.Check(err)
	ts.Check(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	ts.Defer(func() { _ = f.Close() })
}
