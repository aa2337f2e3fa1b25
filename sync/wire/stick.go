package wire

// A stick carries to a terminal what it would fetch, for a shop with no network. What lies
// on it proves itself by the same signatures and hashes, so nobody need trust whoever
// carried it.
const (
	StickSnapshot = "snapshot.note" // signed, as PathSnapshot gives it; written last
	StickBlocks   = "blocks"        // SHA256.manifest, and descriptors as NAME.pieces
	StickPeppers  = "peppers"       // BLOCK.TERMINAL.pepper, sealed to that terminal
	StickPolicies = "policies"      // signed by a seal key
)
