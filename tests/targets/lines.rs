//! Calls back from known places: what each line is, its comment says. test_rust_lines.py looks for the comments.
use std::sync::atomic::{AtomicUsize, Ordering};

pub type Callback = extern "C" fn();

static DONE: AtomicUsize = AtomicUsize::new(0);

fn done() -> usize {
    DONE.fetch_add(1, Ordering::SeqCst)
}

pub trait Weaves {
    fn weave(&self, call: Callback) -> usize;
}

struct Loom<T> {
    threads: Vec<T>,
}

impl<T: Copy + Into<usize>> Weaves for Loom<T> {
    #[inline(never)]
    fn weave(&self, call: Callback) -> usize {
        let total = each(&self.threads, |thread| { /* at weave */
            calls(call); /* at closure */
            (*thread).into()
        });
        total + done()
    }
}

#[inline(always)]
fn each<T>(threads: &[T], function: impl Fn(&T) -> usize) -> usize {
    let first = function(&threads[0]); /* at each */
    first + done()
}

#[inline(never)]
fn calls(call: Callback) {
    call(); /* at calls */
    done();
}

mod shed {
    #[inline(never)]
    pub fn through(loom: &dyn super::Weaves, call: super::Callback) -> usize {
        let result = loom.weave(call); /* at through */
        result + super::done()
    }
}

#[no_mangle]
pub extern "C" fn entry(call: Callback) -> usize {
    let loom = Loom { threads: vec![done() as u16] };
    let result = shed::through(&loom, call); /* at entry */
    result + done()
}
