package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/sync/uplink"
	"grattoir/validate/manifest"
	"grattoir/validate/policy"
)

// limits are the policies that this terminal pays by: the signed ones of a folder, and its
// configuration's while none of them has begun.
type limits struct {
	dir        string
	keys       manifest.Keys
	configured policy.Policy
	trusted    func() time.Time // newest trusted time, zero for none
	log        *slog.Logger

	mu       sync.Mutex
	set      policy.Set
	sources  map[string]source // of the accepted ones, by version
	unusable map[string]string // why files are ignored, by name
	told     string            // what the log was told last of the one in force
	mark     string            // what is stored for the next start
}

// source is where an accepted policy came from.
type source struct {
	file string // "" when it has gone since
	by   []string
}

// Where the policy in force is from, as the status says it.
const (
	fromSigned        = "signed"
	fromConfiguration = "configuration"
	fromNowhere       = "none" // the signed ones are over: nothing is paid
)

const (
	policySuffix = ".policy"
	maxPolicies  = 200        // files that are looked at; a lottery has a few
	markFile     = "in-force" // see policy.Set.Mark
	maxMark      = 256
)

// newLimits reads the folder, and which of its policies was in force when the last run
// ended: a start without the network must not begin with another. What cannot be read
// or written is told and stops nothing; the ledger has its own word on a broken disk.
func newLimits(c configs.Terminal, t trust, trusted func() time.Time, log *slog.Logger) (*limits, error) {
	keys, err := manifest.NewKeys(t.signatures, t.sealKeys...)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("keys: %w", err))
	}
	l := &limits{dir: c.Policies(), keys: keys, configured: c.Limits(), trusted: trusted, log: log, sources: map[string]source{}, unusable: map[string]string{}}
	logError(log, "making the folder of policies", os.MkdirAll(l.dir, 0o750))
	logError(log, "reading the policies", l.rescan())
	mark, err := cli.ReadBounded(filepath.Join(l.dir, markFile), maxMark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("which policy was in force is not known", "err", err)
	}
	l.mark = strings.TrimSpace(string(mark))
	l.set.Resume(l.mark)
	return l, nil
}

// rescan takes in what lies in the folder. A file that cannot be used is named and
// ignored; a policy that was accepted stays until the next start, whatever becomes of
// its file, but for one that central sent and has withdrawn: the link takes its file away.
func (l *limits) rescan() error {
	list, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("policies: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := map[string]string{} // by central: versions by the names of their files
	for version, s := range l.sources {
		if name := strings.TrimSuffix(s.file, policySuffix); uplink.IsBlockName(name) {
			sent[s.file] = version
		}
		s.file = ""
		l.sources[version] = s
	}
	was := l.unusable
	l.unusable = map[string]string{}
	looked := 0
	for _, entry := range list { // in the order of their names
		name := entry.Name()
		if !strings.HasSuffix(name, policySuffix) {
			continue
		}
		if looked++; looked > maxPolicies {
			l.unusable[name] = fmt.Sprintf("more than %d policies lie here: take old ones away", maxPolicies)
			break
		}
		if err := l.take(name); err != nil {
			l.unusable[name] = err.Error()
		}
		delete(sent, name)
	}
	l.withdraw(sent)
	for name, why := range l.unusable {
		if was[name] != why {
			l.log.Error("policy ignored", "file", name, "err", why)
		}
	}
	return nil
}

// withdraw drops what central has taken back, unless it also lies here by hand. The lock is held.
func (l *limits) withdraw(gone map[string]string) {
	for file, version := range gone {
		if l.sources[version].file != "" {
			continue
		}
		l.set.Withdraw(version)
		delete(l.sources, version)
		l.log.Warn("policy withdrawn by central", "file", file, "version", version)
	}
}

// take reads one file and accepts its policy. The lock is held.
func (l *limits) take(name string) error {
	path := filepath.Join(l.dir, name)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, errors.New("it is no regular file"))
	}
	signed, err := cli.ReadBounded(path, policy.MaxText)
	if err != nil {
		return err
	}
	text, by, err := l.keys.At(l.trusted()).Open(signed)
	if err != nil {
		return err
	}
	p, err := policy.Parse(text)
	if err != nil {
		return err
	}
	if err := l.set.Accept(p); err != nil {
		return err
	}
	old, known := l.sources[p.Version]
	if !known {
		l.log.Info("policy accepted", "file", name, "version", p.Version, "from", p.ValidFrom, "to", p.ValidTo, "signed", strings.Join(by, " "))
	}
	l.sources[p.Version] = source{file: cmp.Or(old.file, name), by: by}
	return nil
}

// inForce is the policy that holds now.
func (l *limits) inForce() policy.Policy {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.choose()
	return p
}

// choose is the policy that holds now and where it is from. When this has changed the log
// is told, and the next start. The lock is held.
func (l *limits) choose() (policy.Policy, string) {
	p, err := l.set.InForce(l.trusted())
	from := fromSigned
	switch {
	case errors.Is(err, policy.ErrNone):
		p, from = l.configured, fromConfiguration
	case err != nil:
		from = fromNowhere
	}
	if say := from + " " + p.Version; say != l.told {
		l.told = say
		if from == fromNowhere {
			l.log.Error("no policy is in force, nothing is paid", "err", err)
		} else {
			l.log.Info("policy in force", "version", p.Version, "source", from)
		}
	}
	if mark := l.set.Mark(); mark != l.mark {
		l.mark = mark // tried once: the log tells of a failure, and what is in force does not hang on it
		logError(l.log, "noting which policy is in force", uplink.WriteWhole(filepath.Join(l.dir, markFile), []byte(mark+"\n")))
	}
	return p, from
}

// fault is what is wrong with the signed policies, nil for nothing.
func (l *limits) fault() *terminal.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, from := l.choose(); from == fromNowhere {
		list := l.set.List()
		return health.Limits(health.LimitsOver, fmt.Sprintf("%d lie here, the newest is %s", len(list), list[len(list)-1].Version))
	}
	if len(l.unusable) > 0 {
		return health.Limits(health.LimitsRefuse, strings.Join(l.refused(), ", "))
	}
	return nil
}

// refused names the files that are ignored. The lock is held.
func (l *limits) refused() []string {
	names := make([]string, 0, len(l.unusable))
	for name := range l.unusable {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// status is what lies here, and the version in force.
func (l *limits) status() (version string, s control.Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, from := l.choose()
	s = control.Limits{Source: from, Signed: []control.SignedPolicy{}, Unusable: []control.UnusableFile{}, Findings: []string{}}
	for _, q := range l.set.List() {
		x := control.SignedPolicy{Version: q.Version, ValidFrom: q.ValidFrom.String(), SignedBy: l.sources[q.Version].by,
			File: l.sources[q.Version].file, InForce: from == fromSigned && q == p}
		if !q.ValidTo.IsZero() {
			x.ValidTo = new(q.ValidTo.String())
		}
		s.Signed = append(s.Signed, x)
	}
	for _, name := range l.refused() {
		s.Unusable = append(s.Unusable, control.UnusableFile{File: name, Why: l.unusable[name]})
	}
	for _, f := range l.set.Findings() {
		s.Findings = append(s.Findings, f.String())
	}
	return p.Version, s
}
