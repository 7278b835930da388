# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mirrortool_global_optspecs
    string join \n h/help V/version
end

function __fish_mirrortool_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mirrortool_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mirrortool_using_subcommand
    set -l cmd (__fish_mirrortool_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mirrortool -n "__fish_mirrortool_needs_command" -s h -l help -d 'Print help'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "scrub" -d 'Read every copy of everything allocated and say what is bad'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "repair" -d 'Correct what a scrub finds, from sources that verify; can be undone'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "rebuild" -d 'Make a lost device again on a new one, from the others'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "extract" -d 'Take files out of a set that is damaged or has lost members, each proved by its checksums'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "show" -d 'Show the file system, its devices and block groups, and which devices may be lost'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "policy-bench" -d 'Compare read policies on devices, images or models'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "layout-bench" -d 'Compare md RAID10 layouts over chunk sizes on models'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "readahead-bench" -d 'Walk the trees with and without readahead and compare; writes nothing'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "run" -d 'Run the jobs of a file: sets, options, reports, and what to do on failure'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "man" -d 'Write the manual pages into a folder'
complete -c mirrortool -n "__fish_mirrortool_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l io-engine -d 'How image files are read; block devices are always read directly' -r -f -a "auto\t''
direct\t''
buffered\t''
mmap\t''"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l layers -d 'Whether partition tables, md arrays and LVM volumes in IMAGE are read' -r -f -a "auto\t'Find them by what is there'
none\t'Take every IMAGE as a member of a btrfs itself'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l partition -d 'Where there is a partition table: the btrfs in partition N' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l lv -d 'Where there is LVM: the btrfs in this logical volume' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l threads -d 'Threads that read each device, 64 at most' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l time-limit -d 'End after this time, with a report of what was done: 90s, 30m, 2h, 1d' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l only -d 'Look only at these kinds of blocks' -r -f -a "data\t'File data'
metadata\t'Tree blocks'
super\t'Super block copies'
parity\t'RAID5/6 parity'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l coverage -d 'Which copies of each block to read' -r -f -a "all\t'Every copy, and parity'
one\t'One copy of each block, picked by the read policy; the others where it is bad'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l devid -d 'Read only the copies on this device, the others where one is bad' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l since-generation -d 'Look only at what was written in generation N or later' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l errors-from -d 'Look only at the surroundings of what an earlier report found' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l sample -d 'Look only at so much of the used space: the block groups that were not looked at for the longest time' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l limit -d 'Read at most SIZE per second from each device: 50M, 1G' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l state -d 'Remember in FILE what was looked at [default: /var/lib/mirrortool/FSID.json for root, else under XDG_STATE_HOME]' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l undo-log -d 'Keep what is overwritten in FILE, which must not exist [default: next to the report, or in this folder]' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l prefer-devid -d 'Where copies without checksum differ, take the one on this device' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l readahead -d 'How the trees are read: off, siblings (as the kernel) or pipeline[:DEPTH], so many requests per device' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l read-policy -d 'Which mirror is read where one is enough: pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s c -l io-class -d 'I/O class, by name or as 1, 2 or 3' -r -f -a "realtime\t'Before all others; only for root'
best-effort\t'As everybody'
idle\t'Only when nobody else wants the disk'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s n -l io-level -d 'Priority within the I/O class, from 0 (first) to 7' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l nice -d 'CPU niceness, from 0 to 19 (last)' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l findings -d 'Add each finding to FILE as a line of JSON while the scrub runs, without the files that own it' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l format -d 'The form of the report on stdout' -r -f -a "text\t'For people; that of a scrub as btrfs scrub status'
json\t'For programs'
yaml\t'For programs and people'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l report -d 'Write the whole report to FILE too; .json, .yaml, .txt and .html choose its form, else --format does' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l metrics -d 'Write metrics in Prometheus\' text format to FILE, for the node exporter\'s textfile collector' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l btrfs-status -d 'Store the result where "btrfs scrub status" looks for it: in DIR, or /var/lib/btrfs' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l max-findings -d 'Keep at most N findings for the report; the rest is counted' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l max-owners -d 'List at most N files for each bad sector; the rest is counted' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l degraded -d 'Go on without the members that were not given'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l decompress -d 'Also unpack every compressed extent whose checksums are right, and tell of those that do not unpack'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l since-last -d 'Look only at what was written after the last finished scrub that found nothing bad'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l no-state -d 'Remember nothing'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l resume -d 'Go on with a scrub that was ended early; exit 2 where there is none'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l continue -d 'Go on with a scrub that was ended early; begin one where there is none'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l repair -d 'Correct what can be corrected, as "mirrortool repair" does'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s y -l yes -d 'Write without asking'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l no-undo-log -d 'Keep nothing of what is overwritten: the repair cannot be undone'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l even-stale -d 'With --prefer-devid, also where that member missed transactions: what the others have since is overwritten'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l majority -d 'Where copies without checksum differ, take what more than half of three or four copies have'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l salvage -d 'Where every copy is bad, try to put the right bytes together; a guess, shown as such'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l verify -d 'Scrub again afterwards'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s d -l per-device -d 'A block of text per device instead of one for all'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s R -l raw -d 'All counters by their names instead of a summary'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l fsck-exit -d 'Exit as fsck does: 0 good, 1 corrected, 4 errors left, 8 failed, 16 usage, 32 ended early'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s q -l quiet -d 'Print nothing where nothing is wrong, and no progress'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l no-progress -d 'Show no progress on the terminal'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -l no-paths -d 'Do not look up which files are hit'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand scrub" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l io-engine -d 'How image files are read; block devices are always read directly' -r -f -a "auto\t''
direct\t''
buffered\t''
mmap\t''"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l layers -d 'Whether partition tables, md arrays and LVM volumes in IMAGE are read' -r -f -a "auto\t'Find them by what is there'
none\t'Take every IMAGE as a member of a btrfs itself'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l partition -d 'Where there is a partition table: the btrfs in partition N' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l lv -d 'Where there is LVM: the btrfs in this logical volume' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l undo-log -d 'Keep what is overwritten in FILE, which must not exist [default: next to the report, or in this folder]' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l prefer-devid -d 'Where copies without checksum differ, take the one on this device' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l from -d 'Look only at the places that this report (JSON or YAML of --report) lists' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l readahead -d 'How the trees are read: off, siblings (as the kernel) or pipeline[:DEPTH], so many requests per device' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l read-policy -d 'Which mirror is read where one is enough: pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l format -d 'The form of the report on stdout' -r -f -a "text\t'For people; that of a scrub as btrfs scrub status'
json\t'For programs'
yaml\t'For programs and people'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l report -d 'Write the whole report to FILE too; .json, .yaml, .txt and .html choose its form, else --format does' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l metrics -d 'Write metrics in Prometheus\' text format to FILE, for the node exporter\'s textfile collector' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l btrfs-status -d 'Store the result where "btrfs scrub status" looks for it: in DIR, or /var/lib/btrfs' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l max-findings -d 'Keep at most N findings for the report; the rest is counted' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l max-owners -d 'List at most N files for each bad sector; the rest is counted' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l degraded -d 'Go on without the members that were not given'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -s y -l yes -d 'Write without asking'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l no-undo-log -d 'Keep nothing of what is overwritten: the repair cannot be undone'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l even-stale -d 'With --prefer-devid, also where that member missed transactions: what the others have since is overwritten'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l majority -d 'Where copies without checksum differ, take what more than half of three or four copies have'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l salvage -d 'Where every copy is bad, try to put the right bytes together; a guess, shown as such'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l verify -d 'Scrub again afterwards'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l dry-run -d 'Print what would be written, and write nothing; exits 4 where there is something'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -s d -l per-device -d 'A block of text per device instead of one for all'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -s R -l raw -d 'All counters by their names instead of a summary'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l fsck-exit -d 'Exit as fsck does: 0 good, 1 corrected, 4 errors left, 8 failed, 16 usage, 32 ended early'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -s q -l quiet -d 'Print nothing where nothing is wrong, and no progress'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l no-progress -d 'Show no progress on the terminal'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -l no-paths -d 'Do not look up which files are hit'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and not __fish_seen_subcommand_from undo" -a "undo" -d 'Give the members back every byte that a repair has overwritten'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and __fish_seen_subcommand_from undo" -l dry-run -d 'Check only, and write nothing'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and __fish_seen_subcommand_from undo" -s y -l yes -d 'Accepted for symmetry: the name of the command is consent enough'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and __fish_seen_subcommand_from undo" -s h -l help -d 'Print help'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand repair; and __fish_seen_subcommand_from undo" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l onto -d 'The new device: a blank one or a file, made where there is none' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l devid -d 'The lost device, where several are missing' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l limit -d 'Read from each device, and write to the new one, at most so many bytes per second, as in 50M' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l time-limit -d 'End after this time, to be gone on with: 90s, 30m, 2h, 1d' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l state -d 'Remember in FILE how far it has come [default: /var/lib/mirrortool/FSID-rebuild-N.json for root, else under XDG_STATE_HOME]' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l io-engine -d 'How image files are read; block devices are always read directly' -r -f -a "auto\t''
direct\t''
buffered\t''
mmap\t''"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l readahead -d 'How the trees are read: off, siblings (as the kernel) or pipeline[:DEPTH], so many requests per device' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l read-policy -d 'Which mirror is read where one is enough: pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l format -d 'The form of the report on stdout' -r -f -a "text\t'For people; that of a scrub as btrfs scrub status'
json\t'For programs'
yaml\t'For programs and people'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l report -d 'Write the whole report to FILE too; .json, .yaml, .txt and .html choose its form, else --format does' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l metrics -d 'Write metrics in Prometheus\' text format to FILE, for the node exporter\'s textfile collector' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l btrfs-status -d 'Store the result where "btrfs scrub status" looks for it: in DIR, or /var/lib/btrfs' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l max-findings -d 'Keep at most N findings for the report; the rest is counted' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l max-owners -d 'List at most N files for each bad sector; the rest is counted' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l overwrite -d 'Take the new device also where there is something on it, which is lost'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -s y -l yes -d 'Write without asking'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l dry-run -d 'Read everything and say what would come out, and write nothing; exits 4'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l resume -d 'Go on with a rebuild that was ended early; exit 2 where there is none'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -s d -l per-device -d 'A block of text per device instead of one for all'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -s R -l raw -d 'All counters by their names instead of a summary'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l fsck-exit -d 'Exit as fsck does: 0 good, 1 corrected, 4 errors left, 8 failed, 16 usage, 32 ended early'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -s q -l quiet -d 'Print nothing where nothing is wrong, and no progress'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l no-progress -d 'Show no progress on the terminal'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -l no-paths -d 'Do not look up which files are hit'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand rebuild" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l io-engine -d 'How image files are read; block devices are always read directly' -r -f -a "auto\t''
direct\t''
buffered\t''
mmap\t''"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l layers -d 'Whether partition tables, md arrays and LVM volumes in IMAGE are read' -r -f -a "auto\t'Find them by what is there'
none\t'Take every IMAGE as a member of a btrfs itself'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l partition -d 'Where there is a partition table: the btrfs in partition N' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l lv -d 'Where there is LVM: the btrfs in this logical volume' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l to -d 'Put everything into FOLDER; nothing that is there is overwritten' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l subvolume -d 'Start from this subvolume, by its path from the top of the file system' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l path -d 'Only paths that match, and what lies below them: * stays within a folder, ** does not; may be given again' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l manifest -d 'List every path with its state in FILE, in place of FOLDER/mirrortool-manifest.jsonl' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -s c -l io-class -d 'I/O class, by name or as 1, 2 or 3' -r -f -a "realtime\t'Before all others; only for root'
best-effort\t'As everybody'
idle\t'Only when nobody else wants the disk'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -s n -l io-level -d 'Priority within the I/O class, from 0 (first) to 7' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l nice -d 'CPU niceness, from 0 to 19 (last)' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l format -d 'The form of the summary on stdout' -r -f -a "text\t'For people; that of a scrub as btrfs scrub status'
json\t'For programs'
yaml\t'For programs and people'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l degraded -d 'Go on without the members that were not given'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l with-damaged -d 'Write files that are not whole too, as NAME.damaged'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l no-snapshots -d 'Leave subvolumes that are snapshots of another one as empty folders'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -s q -l quiet -d 'Print nothing where everything is whole, and no progress'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -l no-progress -d 'Show no progress on the terminal'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand extract" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l io-engine -d 'How image files are read; block devices are always read directly' -r -f -a "auto\t''
direct\t''
buffered\t''
mmap\t''"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l layers -d 'Whether partition tables, md arrays and LVM volumes in IMAGE are read' -r -f -a "auto\t'Find them by what is there'
none\t'Take every IMAGE as a member of a btrfs itself'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l partition -d 'Where there is a partition table: the btrfs in partition N' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l lv -d 'Where there is LVM: the btrfs in this logical volume' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l format -d 'The form of what is printed' -r -f -a "text\t'For people; that of a scrub as btrfs scrub status'
json\t'For programs'
yaml\t'For programs and people'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l degraded -d 'Go on without the members that were not given'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -l subvolumes -d 'Say which subvolumes would lose how much of their files; reads all their trees'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand show" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l io-engine -d 'How image files are read; block devices are always read directly' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l model -d 'A model per device, in the order of devids: hdd, hdd-2005, hdd-smr, ssd, nvme, vm, or a YAML file [default: nvme,nvme without IMAGE]' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l profile -d 'How copies lie on modelled devices' -r -f -a "raid1\t'Two copies'
raid1c3\t'Three copies'
raid1c4\t'Four copies'
raid10\t'Stripes over pairs'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l workload -d 'What to read: sequential, random-4k, random-64k, latency-4k, defrag, scrub-one, mixed-4k, mixed-64k' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l jobs -d 'Jobs side by side' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l iodepth -d 'Requests in flight per job' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l size -d 'How much all jobs transfer together' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l policies -d 'The policies, separated by commas' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l rounds -d 'How often each policy runs' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l event -d 'What happens to a modelled device, as "10s devid=2 latency=x20", "5s devid=1 fail", "20s devid=2 recover"' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l format -d 'The form of what is printed' -r -f -a "text\t'A table'
json\t'For programs'
yaml\t'For programs and people'
csv\t'For spreadsheets'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l plot -d 'Draw the rates to FILE as SVG' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l emulate -d 'Delay the reads of the real devices as the models would'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -l matrix -d 'Run every policy through every scenario instead'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand policy-bench" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l model -d 'The model of the members: hdd, hdd-2005, hdd-smr, ssd, nvme, vm, or a YAML file' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l devices -d 'How many members' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l member-size -d 'The size of a member; as large as the model where not given' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l layouts -d 'The layouts, separated by commas: n for near, f for far, o for offset, and the number of copies' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l chunks -d 'The chunk sizes, separated by commas: multiples of 4K, also such as are no power of two' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l size -d 'How much is read and written, from the start of the array' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l format -d 'The form of what is printed' -r -f -a "text\t'A table'
json\t'For programs'
yaml\t'For programs and people'
csv\t'For spreadsheets'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -l plot -d 'Draw the rates over the chunk size to FILE as SVG' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand layout-bench" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l trees -d 'Which trees are walked: all, extent, csum or fs' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l modes -d 'The modes to compare: off, siblings, pipeline[:DEPTH]' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l rounds -d 'How often each mode runs, in alternating order' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l read-policy -d 'Which mirror is read where one is enough: pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l model -d 'The model of all devices, or one for each in the order of their devids: a name or a YAML file' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l format -d 'The form of the result on stdout' -r -f -a "text\t'A table'
json\t'For programs'
yaml\t'For programs and people'
csv\t'For spreadsheets'"
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l plot -d 'Draw the durations into an SVG file' -r -F
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l degraded -d 'Go on without the members that were not given'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l scrub -d 'Run the whole scrub in each mode too'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l simulate -d 'Run in virtual time over device models; the devices are only read for the shape of the trees'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l emulate -d 'Delay the reads of the real devices as the models would'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l one-disk -d 'All devices are partitions of one of the model, one behind the other'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -l no-progress -d 'Show no progress on the terminal'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand readahead-bench" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand run" -l job -d 'Run only the job of this name; may be given several times' -r
complete -c mirrortool -n "__fish_mirrortool_using_subcommand run" -l check -d 'Only look for mistakes in the file'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand run" -s q -l quiet -d 'Print nothing for jobs that found nothing and warned of nothing'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand run" -s h -l help -d 'Print help'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand run" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand completions" -s h -l help -d 'Print help'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand completions" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand man" -s h -l help -d 'Print help'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand man" -s V -l version -d 'Print version'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "scrub" -d 'Read every copy of everything allocated and say what is bad'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "repair" -d 'Correct what a scrub finds, from sources that verify; can be undone'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "rebuild" -d 'Make a lost device again on a new one, from the others'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "extract" -d 'Take files out of a set that is damaged or has lost members, each proved by its checksums'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "show" -d 'Show the file system, its devices and block groups, and which devices may be lost'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "policy-bench" -d 'Compare read policies on devices, images or models'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "layout-bench" -d 'Compare md RAID10 layouts over chunk sizes on models'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "readahead-bench" -d 'Walk the trees with and without readahead and compare; writes nothing'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "run" -d 'Run the jobs of a file: sets, options, reports, and what to do on failure'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "man" -d 'Write the manual pages into a folder'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and not __fish_seen_subcommand_from scrub repair rebuild extract show policy-bench layout-bench readahead-bench run completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mirrortool -n "__fish_mirrortool_using_subcommand help; and __fish_seen_subcommand_from repair" -f -a "undo" -d 'Give the members back every byte that a repair has overwritten'
