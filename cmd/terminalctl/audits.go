package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
)

// auditAnswer is an audit beside the ledger.
type auditAnswer struct {
	Audit   string `json:"audit"`
	File    string `json:"file"`
	Lines   int64  `json:"lines"`
	Noted   int64  `json:"noted"` // the newest line that the journal notes
	Finding string `json:"finding,omitempty"`
}

// auditFlags name the files of the audits that lie beside a ledger.
type auditFlags struct{ operators, identities string }

func (a *auditFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.operators, "operators", "", "the operators' `file` (people.db beside the ledger)")
	cmd.Flags().StringVar(&a.identities, "identities", "", "the register's `file` (register.db beside the ledger)")
}

// check holds the audits against what the journal notes of them.
func (a *auditFlags) check(ctx context.Context, path string, i *ledger.Inspection) ([]auditAnswer, error) {
	noted, err := i.AuditHeads(ctx)
	if err != nil {
		return nil, err
	}
	answers := []auditAnswer{}
	for _, f := range auditFiles(path, a.operators, a.identities) {
		found, err := checkAudit(ctx, f, i.Terminal(), noted)
		if err != nil {
			return nil, err
		}
		if found != nil {
			answers = append(answers, *found)
		}
	}
	return answers, nil
}

func (a auditAnswer) text() string {
	if a.Finding != "" {
		return fmt.Sprintf("audit of %s, %s: FINDING: %s\n", a.Audit, a.File, a.Finding)
	}
	return fmt.Sprintf("audit of %s: whole, %d lines; none up to line %d was changed or cut off\n", a.Audit, a.Lines, a.Noted)
}

// auditFile is where an audit is looked for.
type auditFile struct{ audit, path string }

// auditFiles are those that were named, else those beside the ledger.
func auditFiles(book, operators, identities string) []auditFile {
	if operators == "" {
		operators = filepath.Join(filepath.Dir(book), "people.db")
	}
	if identities == "" {
		identities = filepath.Join(filepath.Dir(book), "register.db")
	}
	return []auditFile{{"operators", operators}, {"identities", identities}}
}

// checkAudit is nil for an audit that is not here and that the journal does not name.
func checkAudit(ctx context.Context, f auditFile, terminal string, noted []ledger.NotedAudit) (*auditAnswer, error) {
	a := auditAnswer{Audit: f.audit, File: f.path}
	for _, n := range noted {
		if n.Audit == f.audit {
			a.Noted = n.Seq
		}
	}
	c, err := people.CheckAudit(ctx, f.path, terminal, noted)
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.Noted == 0:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		a.Finding = fmt.Sprintf("the journal notes line %d and the file is not here: name it with --%s", a.Noted, f.audit)
	case err != nil:
		return nil, fmt.Errorf("audit of %s: %w", f.audit, err)
	case c.Audit != f.audit:
		return nil, cli.Usagef("%s holds the %s, want the %s", f.path, c.Audit, f.audit)
	case c.Broken != nil:
		a.Lines, a.Finding = c.Lines, c.Broken.Error()
	default:
		a.Lines = c.Lines
	}
	return &a, nil
}
