package main

import (
	"cmp"
	"os"
	"strings"
	"time"

	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/firmware/update"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
)

// software is what the update agent does beside the daemon, which only reads its state and
// brings it what central offers. The daemon has no way to RAUC and to a restart: it pays,
// listens to a network, and could neither judge itself nor outlive its own failure.
type software struct{ dir string }

// updatesOf is nil where no agent is configured.
func updatesOf(c configs.Terminal) uplink.Software {
	if c.Update.Agent == "" {
		return nil
	}
	return software{c.Update.Agent}
}

// State is the agent's, nil before it has begun.
func (s software) State() *wire.Software {
	st, err := update.ReadState(s.dir)
	if err != nil {
		return nil
	}
	out := &wire.Software{Board: st.Running.Board, Version: st.Running.Version, Number: st.Running.Number, Floor: st.Floor}
	switch {
	case st.Update != nil:
		u := st.Update
		steps := map[update.Phase]wire.UpdateStep{update.Copying: wire.UpdateInstalling, update.Installing: wire.UpdateInstalling, update.Waiting: wire.UpdateWaiting, update.Trying: wire.UpdateTrying}
		out.Update = &wire.UpdateState{Version: u.Version, Number: u.Number, SHA256: u.SHA256, Step: steps[st.Phase], Reason: cmp.Or(u.Verdict, u.Why)}
	case st.Last != nil:
		out.Update = &wire.UpdateState{Version: st.Last.Version, Number: st.Last.Number, SHA256: st.Last.SHA256, Step: wire.UpdateStep(st.Last.Outcome), Reason: st.Last.Reason}
	}
	return out
}

// Pieces reads what a manifest says of its bundle. Whether a release key has signed it is
// for the agent to say: the bytes are held against the hash in central's signed snapshot.
func (software) Pieces(signed []byte) (wire.Pieces, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	m, err := update.ParseManifest(text + "\n")
	return wire.Pieces{Block: m.SHA256, Size: m.Size, Sums: m.Pieces}, err
}

// readiness is what a health gate asks. It says nothing of the network.
func (d *daemon) readiness() control.Readiness {
	r := control.Readiness{ActiveMS: time.Since(d.ready).Milliseconds()}
	if err := d.book.Writable(); err != nil {
		r.Ledger = ledgerFault(err).Code + ": " + err.Error()
	}
	select {
	case <-d.audit.ended:
	default:
		r.Pending = true
	}
	for _, x := range []struct{ name, path string }{{"printer", d.config.Printer.Path}, {"scanner", d.config.Scanner.Path}} {
		if _, err := os.Stat(x.path); err == nil {
			r.Devices = append(r.Devices, x.name)
		}
	}
	return r
}

// quiet tells whether it is the hour in which nobody is expected. A clock that is wrong
// makes it the wrong hour; what is under way is held against a restart all the same.
func (d *daemon) quiet() bool {
	from, to, err := d.config.Update.Hours()
	if err != nil || from == to {
		return false
	}
	now := d.now().In(d.stationery.Zone)
	at := now.Hour()*60 + now.Minute()
	if from < to {
		return from <= at && at < to
	}
	return at >= from || at < to
}
